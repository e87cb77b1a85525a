package scale_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/headrace/headrace/scale"
)

// bits hands out the bytes of a fuzz input as values of every kind, the impossible ones included.
type bits struct{ data []byte }

func (b *bits) byte() byte {
	if len(b.data) == 0 {
		return 0
	}
	v := b.data[0]
	b.data = b.data[1:]
	return v
}

func (b *bits) raw() uint64 {
	var word [8]byte
	b.data = b.data[copy(word[:], b.data):]
	return binary.LittleEndian.Uint64(word[:])
}

var odd = []float64{0, 1, -1, 1e-300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, math.MaxInt64, 1e15}

func (b *bits) float() float64 {
	switch k := b.byte(); {
	case int(k) < len(odd):
		return odd[k]
	case k < 200:
		return float64(b.byte()) * float64(b.byte()) / 16
	}
	return math.Float64frombits(b.raw())
}

func (b *bits) int() int {
	switch b.byte() % 8 {
	case 0:
		return math.MaxInt
	case 1:
		return math.MinInt
	case 2:
		return int(b.raw())
	}
	return int(b.byte())
}

func (b *bits) span() time.Duration {
	switch b.byte() % 8 {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return time.Duration(b.raw())
	}
	return time.Duration(b.byte()) * time.Second
}

func (b *bits) time() time.Time {
	switch b.byte() % 8 {
	case 0:
		return time.Time{}
	case 1:
		return time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
	case 2:
		return time.Unix(-int64(b.byte())*1e8, 0).UTC()
	case 3:
		return anchor.Add(-time.Duration(b.byte()) * time.Hour)
	}
	return anchor.Add(time.Duration(int8(b.byte())) * time.Second)
}

func (b *bits) reading() scale.Reading { return scale.Reading{Value: b.float(), At: b.time()} }

func (b *bits) rates() (rs []scale.Rate) {
	for range b.byte() % 3 {
		rs = append(rs, scale.Rate{Percent: b.float(), Replicas: b.int(), Per: b.span()})
	}
	return rs
}

func (b *bits) policy() scale.Policy {
	p := scale.Policy{
		Pool: "p", Min: b.int(), Max: b.int(), Concurrency: b.int(), StartsIn: b.span(), ServiceTime: b.span(), Utilisation: b.float(),
		IdleToZero: b.span(), Grace: b.span(), Cycle: b.span(), Stale: b.span(), StaleFloor: b.int(), Observe: b.byte()%2 == 0,
		Objective: scale.Objective{OldestAge: b.span(), Drain: b.span(), Miss: b.float()},
		Damping:   scale.Damping{HoldSteady: b.span(), HoldDrain: b.span(), Up: b.rates(), Down: b.rates()},
	}
	for range b.byte() % 3 {
		p.Downstreams = append(p.Downstreams, scale.Use{Downstream: "d", Unit: "u", UnitsPerJob: b.float(), Permits: b.byte()%2 == 0})
	}
	return p
}

func (b *bits) observation() scale.Observation {
	o := scale.Observation{
		At: b.time(), Backlog: b.reading(), InFlight: b.reading(), Delayed: b.reading(), NextDue: b.reading(), OldestAge: b.reading(),
		Completions: b.reading(), SourceLag: b.float(),
		Replicas: scale.Replicas{At: b.time(), Desired: b.int(), Ready: b.int(), Draining: b.int(), Busy: b.reading(), Occupied: b.reading(), CrashLooping: b.int()},
		Estimates: scale.Estimates{
			Arrival: b.float(), ArrivalFast: b.float(), ArrivalSlow: b.float(), ArrivalError: b.float(), Dispersion: b.float(), ArrivalAt: b.time(),
			Completion: b.float(), ServiceTime: b.float(), ServiceCV2: b.float(), ServiceCount: b.float(), ColdStart: b.float(), ColdStarts: b.int(),
		},
	}
	for range b.byte() % 4 {
		o.Replicas.Starting = append(o.Replicas.Starting, b.float())
	}
	if b.byte()%4 == 0 {
		o.Replicas.Refused = "no room"
	}
	for range b.byte() % 3 {
		o.Limits = append(o.Limits, scale.Limit{Downstream: "d", Unit: "u", PerSecond: b.float(), UnitsPerJob: b.reading(), Used: b.reading(), Throttled: b.reading(), PausedFor: b.float()})
	}
	return o
}

// FuzzDecide runs chains of decisions on arbitrary policies and observations, on needs that Size computed and on arbitrary ones. No
// input panics, overflows, leaves the range, grows the state or makes a record that cannot be stored.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{})
	seed := make([]byte, 900)
	for i := range seed {
		seed[i] = byte(i*7 + i/13)
	}
	f.Add(seed)
	for k := range 12 { // one seed a special number, everywhere
		s := make([]byte, 600)
		for i := range s {
			s[i] = byte(k)
		}
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &bits{data}
		p := b.policy()
		_ = p.Validate()
		var s scale.State
		for range 3 {
			o := b.observation()
			need := scale.Size(p, s, o)
			if need.Replicas < 0 || math.IsNaN(need.Slots) || math.IsInf(need.Slots, 0) || !(need.Slots >= 0) {
				t.Fatalf("need %+v", need)
			}
			if b.byte()%4 == 0 {
				need = scale.Need{Known: b.byte()%2 == 0, Replicas: b.int(), Late: b.byte()%2 == 0, Idle: b.byte()%2 == 0}
			}
			g := scale.Share([]scale.Need{need}, []scale.Capacity{{Name: "quota", Replicas: b.int(), Pools: []string{"p"}}})[0]
			if b.byte()%4 == 0 {
				g.Limits = append(g.Limits, scale.Ceiling{Reason: scale.TeamQuota, Name: "x", Replicas: b.int()})
			}
			d, next := scale.Decide(p, s, o, g)
			check(t, p, s, o, g, d, next)
			s = next
		}
	})
}
