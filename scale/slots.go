package scale

// Plan is the plain capacity formula on a piece of paper: no cold start, no distribution, no ceiling.
type Plan struct {
	Arrival     float64 // λ, jobs/s
	ServiceTime float64 // S, seconds
	Backlog     float64 // Q, jobs to clear
	Drain       float64 // seconds to clear them in; 0: ignore the backlog
	Utilisation float64 // ρ, in (0, 1]; 0 means 1
	Concurrency int     // slots of one worker; 0 means 1
}

// Slots returns (λ + Q/drain)·S/ρ slots, rounded up, and the workers that hold them.
func Slots(p Plan) (slots, workers int) {
	rate := sane(p.Arrival)
	if d := sane(p.Drain); d > 0 {
		rate += sane(p.Backlog) / d
	}
	rho := p.Utilisation
	if !(rho > 0 && rho <= 1) {
		rho = 1
	}
	slots = ceil(rate * sane(p.ServiceTime) / rho)
	return slots, ceil(float64(slots) / float64(clamp(p.Concurrency, 1, maxReplicas)))
}

// RateCeiling is the most workers of c slots that a limit of perSecond units/s can feed, when a job takes
// units of them and keeps its slot for s seconds: x = R·s/(k·c), before rounding. 0 when an input is unusable.
func RateCeiling(perSecond, units, s float64, c int) float64 {
	perSecond, units, s = sane(perSecond), sane(units), sane(s)
	if units <= 0 || s <= 0 || c < 1 {
		return 0
	}
	return perSecond * s / (units * float64(c))
}
