package memory_test

import (
	"testing"

	"github.com/headrace/headrace/queue/queuetest"
)

func scenario(t *testing.T, number string) {
	t.Parallel()
	t.Run("RealTime", func(t *testing.T) { queuetest.Scenario(t, realTime, number) })
	t.Run("VirtualTime", func(t *testing.T) { queuetest.Scenario(t, virtualTime, number) })
}

func TestW10_StaleSettleIsRefused(t *testing.T)      { scenario(t, "W10") }
func TestW11_ExtendAndSettleCross(t *testing.T)      { scenario(t, "W11") }
func TestW12_ExtendedLeaseHasOneStart(t *testing.T)  { scenario(t, "W12") }
func TestW17_EachExpiryIsCountedOnce(t *testing.T)   { scenario(t, "W17") }
func TestW18_OldTokenIsLost(t *testing.T)            { scenario(t, "W18") }
func TestW19_PoisonDiesAlone(t *testing.T)           { scenario(t, "W19") }
func TestW21_NackLoopFollowsTheBackoff(t *testing.T) { scenario(t, "W21") }
func TestW25_EveryExitFreesItsPlace(t *testing.T)    { scenario(t, "W25") }
func TestW42_KeysAreIdempotent(t *testing.T)         { scenario(t, "W42") }
