package ledger

import "time"

// While leases are in force, [Ledger.Tick] is called at least every pulse: [Ledger.Next] asks for it. A longer gap is time
// in which the process did not run: it was stopped, its virtual machine was paused, or a disk held it up. No holder could
// extend its lease then, so that time counts for no lease.
//
// Gaps of up to stallAfter are taken for a busy machine, and count. A lease shorter than that is not protected.
const (
	pulse      = 500 * time.Millisecond
	stallAfter = 2 * pulse
)

// beat notes that the process runs at now, and returns the time of the latest beat. After a stall it first moves the end and
// the hard maximum of every lease by the whole gap, which is at most a pulse more than was lost. Whatever looks at the end
// of a lease, or sets it, comes after a beat and counts from what that returned: its own reading of the clock may be from
// before a stall that somebody else has noticed. The caller holds mu.
func (ls *leases) beat(now int64) int64 {
	gap := time.Duration(now - ls.beatAt)
	ls.beatAt = max(ls.beatAt, now)
	if gap > stallAfter {
		for _, x := range ls.due { // all alike, so that the heap stays one
			x.until, x.maxAt = later(x.until, gap), later(x.maxAt, gap)
		}
	}
	return ls.beatAt
}

func (ls *leases) lockedBeat(now int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.beat(now)
}

// nextBeat returns when the next beat must come at the latest.
func (ls *leases) nextBeat() int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.due) == 0 {
		return Never
	}
	return ls.beatAt + int64(pulse)
}
