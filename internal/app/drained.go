package app

import (
	"context"
	"fmt"
	"strings"
)

// Drained counts what a drain did, over all pools.
type Drained struct {
	Finished  int64 // succeeded
	Otherwise int64 // an attempt ended in another way: it failed, or its job was cancelled
	GivenBack int64 // wait for a worker again, without an attempt
	Leased    int64 // still held: they run again when their leases have run out
	Unknown   error // why this is not known
}

// String is one line for people.
func (d Drained) String() string {
	if d.Unknown != nil {
		return fmt.Sprintf("drained; what became of the jobs is not known: %v", d.Unknown)
	}
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{d.Finished, "finished"}, {d.Otherwise, "failed"}, {d.GivenBack, "given back"}, {d.Leased, "left until the lease runs out"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "drained: no job was running"
	}
	return "drained: of the jobs that ran, " + strings.Join(parts, ", ")
}

// count reads the queues' running totals.
func (qs *queues) count(ctx context.Context) (d Drained) {
	for _, q := range qs.byPool {
		st, err := q.Stats(ctx)
		if err != nil {
			d.Unknown = err
			continue
		}
		d.Finished += st.Totals["succeeded"]
		d.Otherwise += int64(st.Attempts.Value) - st.Totals["succeeded"]
		d.GivenBack += st.Totals["released"]
		d.Leased += int64(st.InFlight.Value)
	}
	return d
}

// since returns what happened after before was read.
func (d Drained) since(before Drained) Drained {
	d.Finished -= before.Finished
	d.Otherwise -= before.Otherwise
	d.GivenBack -= before.GivenBack
	if d.Unknown == nil {
		d.Unknown = before.Unknown
	}
	return d
}
