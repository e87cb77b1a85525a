package queuetest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/queue"
)

// Config says how to test an adapter.
type Config struct {
	// Open opens an empty queue. It is called once a test and registers its clean-up with t.
	Open func(t *testing.T, p queue.Policy) *Harness
	// Virtual runs each test in a synctest bubble.
	Virtual bool
	// Unit is the time that the tests count in: a lease lasts ten. Default: 1 s in virtual time, 100 ms in real time.
	Unit time.Duration
	// Slack is how late things may be. Default: 1 ms in virtual time, 1 s in real time, where a busy machine makes all late.
	Slack time.Duration
	// Small divides by ten how often the longest tests repeat themselves: for slow builds, such as those with the race
	// detector, of an adapter whose full size is tested otherwise.
	Small bool
}

// Harness is a queue under test.
type Harness struct {
	Queue queue.Queue // and whatever optional interfaces it has
	// Reopen ends the process that serves the queue, without a warning to it, and returns the queue as the next process
	// finds it. Nil when the queue does not outlive its process.
	Reopen func() queue.Queue
	// Drift returns every difference between kept counters and reality. Nil when the queue cannot tell.
	Drift func() ([]string, error)
}

// Run tests an adapter: all of the suite but its scenarios, see [Scenario].
func Run(t *testing.T, c Config) {
	c = c.withDefaults()
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) { c.run(t, s) })
	}
}

// Scenario tests an adapter with the scenario whose name begins with number, such as "W10". It has a test of its own in
// each adapter, so that it is found by its number. [Scenarios] lists them.
func Scenario(t *testing.T, c Config, number string) {
	for _, s := range scenarios {
		if strings.HasPrefix(s.name, number+"_") {
			c.withDefaults().run(t, s)
			return
		}
	}
	t.Fatalf("there is no scenario %s", number)
}

// Scenarios returns the numbers of all scenarios.
func Scenarios() []string {
	var all []string
	for _, s := range scenarios {
		number, _, _ := strings.Cut(s.name, "_")
		all = append(all, number)
	}
	return all
}

func (c Config) withDefaults() Config {
	if c.Unit == 0 {
		c.Unit = 100 * time.Millisecond
		if c.Virtual {
			c.Unit = time.Second
		}
	}
	if c.Slack == 0 {
		c.Slack = time.Second
		if c.Virtual {
			c.Slack = time.Millisecond
		}
	}
	return c
}

func (c Config) run(t *testing.T, s story) {
	t.Parallel()
	if c.Virtual {
		synctest.Test(t, func(t *testing.T) { c.tell(t, s) })
		return
	}
	c.tell(t, s)
}

// times returns n, or a tenth of it.
func (c Config) times(n int) int {
	if c.Small {
		return max(1, n/10)
	}
	return n
}

// policy returns a policy in units.
func (c Config) policy() queue.Policy {
	return queue.Policy{
		Lease: 10 * c.Unit, MaxLease: 1000 * c.Unit, Attempts: 5, AfterCrashes: 2,
		BackoffMin: c.Unit, BackoffMax: 8 * c.Unit, KeepResults: time.Hour,
	}
}

func (c Config) tell(t *testing.T, s story) {
	p := c.policy()
	if s.policy != nil {
		s.policy(c.Unit, &p)
	}
	h := c.Open(t, p)
	k := &kit{T: t, Config: c, h: h, policy: p, held: map[string]bool{}}
	k.use(h.Queue)
	if s.needs != nil && !s.needs(k) {
		return
	}
	s.run(k)
	k.noDrift()
}

// story is one test.
type story struct {
	name   string
	policy func(unit time.Duration, p *queue.Policy)
	needs  func(k *kit) bool // what the queue must be able to do; nil: to publish
	run    func(k *kit)
}

var stories = []story{
	{name: "AckedJobsAreGone", run: ackedJobsAreGone},
	{name: "ReceiveReturnsNoMoreThanAsked", run: receiveReturnsNoMoreThanAsked},
	{name: "ReceiveWaitsAndWakes", run: receiveWaitsAndWakes},
	{name: "CancelledReceiveLosesNothing", run: cancelledReceiveLosesNothing},
	{name: "BadRequestsAreRefused", run: badRequestsAreRefused},
	{name: "PayloadsSurvive", run: payloadsSurvive},
	{name: "CloseWakesEverybody", run: closeWakesEverybody},
	{name: "NoJobHasTwoHolders", policy: keptLeases, run: noJobHasTwoHolders},
	{name: "EverythingAtOnce", run: everythingAtOnce},

	{name: "SilentHolderLosesItsJob", run: silentHolderLosesItsJob},
	{name: "SettlingTwiceIsOnce", run: settlingTwiceIsOnce},
	{name: "ReleaseIsNotAnAttempt", run: releaseIsNotAnAttempt},
	{name: "NackComesBackAfterItsDelay", run: nackComesBackAfterItsDelay},
	{name: "AttemptsAreCountedExactly", run: attemptsAreCountedExactly},
	{name: "TooManyAttemptsAreDead", run: tooManyAttemptsAreDead},
	{name: "DeadKeepsItsReason", run: deadKeepsItsReason},
	{name: "HardMaximumEndsALease", policy: shortMax, run: hardMaximumEndsALease},
	{name: "ShorterExtensionEndsSooner", run: shorterExtensionEndsSooner},
	{name: "AbandonedJobsCrash", run: abandonedJobsCrash},
	{name: "FirstCrashComesBackAtOnce", run: firstCrashComesBackAtOnce},

	{name: "StatsAreExact", run: statsAreExact},
	{name: "StatsAgeCountsFromReady", run: statsAgeCountsFromReady},
	{name: "BadJobHarmsNoNeighbour", run: badJobHarmsNoNeighbour},
	{name: "OwnIDsAreKept", run: ownIDsAreKept},
	{name: "DelayedJobsComeInTime", run: delayedJobsComeInTime},
	{name: "ExpiredJobsAreNotRun", run: expiredJobsAreNotRun},
	{name: "CancelWaiting", run: cancelWaiting},
	{name: "CancelLeased", run: cancelLeased},
	{name: "RedriveGivesAnotherLife", run: redriveGivesAnotherLife},
	{name: "AwaitReturnsAtTheEnd", run: awaitReturnsAtTheEnd},
	{name: "ListPages", run: listPages},
	{name: "WaitTellsOfWork", run: waitTellsOfWork},
	{name: "FinishedJobsAreForgotten", policy: shortKeep, run: finishedJobsAreForgotten},

	{name: "SuspectRunsAlone", run: suspectRunsAlone},
	{name: "SuspectDoesNotStarve", run: suspectDoesNotStarve},
	{name: "ReservationLapses", needs: virtual, run: reservationLapses},

	{name: "ReopenKeepsEverything", needs: reopens, run: reopenKeepsEverything},
	{name: "ReopenGivesLeasesAnotherTerm", needs: reopens, run: reopenGivesLeasesAnotherTerm},
}

// scenarios are stories of what went wrong in queues that people use.
var scenarios = []story{
	{name: "W10_StaleSettleIsRefused", run: w10StaleSettle},
	{name: "W11_ExtendAndSettleCross", run: w11ExtendAndSettleCross},
	{name: "W12_ExtendedLeaseHasOneStart", policy: longHold, run: w12ExtendedLease},
	{name: "W17_EachExpiryIsCountedOnce", policy: manyCrashes, run: w17ExpiryCountedOnce},
	{name: "W18_OldTokenIsLost", run: w18OldToken},
	{name: "W19_PoisonDiesAlone", run: w19Poison},
	{name: "W21_NackLoopFollowsTheBackoff", policy: longBackoff, needs: virtual, run: w21NackLoop},
	{name: "W25_EveryExitFreesItsPlace", policy: manyCrashes, run: w25Exits},
	{name: "W42_KeysAreIdempotent", policy: shortKeep, run: w42Keys},
}

func reopens(k *kit) bool { return k.h.Reopen != nil }
func virtual(k *kit) bool { return k.Virtual }

func shortMax(u time.Duration, p *queue.Policy) { p.MaxLease = 25 * u }
func longHold(u time.Duration, p *queue.Policy) { p.MaxLease = 2000 * u }
func keptLeases(_ time.Duration, p *queue.Policy) { // however slow the machine
	p.Lease, p.MaxLease = time.Hour, time.Hour
}
func shortKeep(u time.Duration, p *queue.Policy) { p.KeepResults = 20 * u }
func manyCrashes(_ time.Duration, p *queue.Policy) {
	p.AfterCrashes, p.Attempts = 1000, 1000
}
func longBackoff(_ time.Duration, p *queue.Policy) {
	p.BackoffMin, p.BackoffMax, p.Attempts = time.Second, 10*time.Minute, 1000
}
