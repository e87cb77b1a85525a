// Package queuetest is the conformance suite that every adapter of package queue passes.
//
// Each test opens a queue of its own, so that tests may run at the same time. What a queue claims to do is tested. With
// [Config.Virtual] the tests run in the virtual time of testing/synctest: the same stories, exactly timed, in no time.
//
// What is promised, and which test shows it. The numbers are those that the project's list of promises of any queue has;
// missing ones need a network, a server or a capability that the built-in queues do not have.
//
//	 1  what is published is received, acked and gone, and the numbers say so      AckedJobsAreGone
//	 2  Receive never returns more than was asked for, or than its batch           ReceiveReturnsNoMoreThanAsked
//	 3  Receive blocks, and wakes at once when a job comes                         ReceiveWaitsAndWakes, WaitTellsOfWork
//	 4  a Receive whose context ends while a job arrives loses nothing             CancelledReceiveLosesNothing
//	 5  jobs of a holder that died are received again within a lease               SilentHolderLosesItsJob, AbandonedJobsCrash,
//	                                                                               ReopenGivesLeasesAnotherTerm
//	 6  also when it died between the work and the settlement, under the same id   SilentHolderLosesItsJob, W10_StaleSettleIsRefused
//	 7  settling twice is settling once; after the lease it is refused             SettlingTwiceIsOnce, W10_, W18_OldTokenIsLost
//	 8  a release is no attempt                                                    ReleaseIsNotAnAttempt
//	 9  a nack comes back after its delay, not before, and holds nobody up         NackComesBackAfterItsDelay,
//	                                                                               W21_NackLoopFollowsTheBackoff
//	10  a dead job keeps its reason and its payload                                DeadKeepsItsReason, W19_PoisonDiesAlone
//	11  Close lets go of nothing silently: leases stay in force, and their
//	    holders release them first                                                 ReopenKeepsEverything
//	12  Close twice is once, and afterwards every call says so                     CloseWakesEverybody
//	15  a settlement whose answer was lost may be sent again, with one effect      SettlingTwiceIsOnce, ReopenKeepsEverything
//	16  any payload and header up to the limits comes back as it was               PayloadsSurvive
//	17  any text is a tenant, a key or a header                                    PayloadsSurvive
//	18  no job has two holders at a time while leases are kept                     NoJobHasTwoHolders, W17_EachExpiryIsCountedOnce
//	19  everything may be called at the same time                                  EverythingAtOnce, and [Stress]
//	20  Stats are exact, never negative, unknown rather than zero                  StatsAreExact, StatsAgeCountsFromReady
//	22  an extended lease lasts, up to its hard maximum, and races with nothing    W12_ExtendedLeaseHasOneStart,
//	                                                                               HardMaximumEndsALease, W11_ExtendAndSettleCross
//	23  attempts and crashes are counted exactly                                   AttemptsAreCountedExactly
//	24  as many attempts as are allowed, then dead                                 TooManyAttemptsAreDead, W19_PoisonDiesAlone
//	25  no delivery while paused                                                   pausing is above the queue: nobody calls Receive
//	26  a redrive moves each dead job once, and poison only when forced            RedriveGivesAnotherLife
//	28  a key publishes once; one bad job harms no neighbour                       W42_KeysAreIdempotent, BadJobHarmsNoNeighbour
//	31  a step of the wall clock ends and prolongs no lease                        a test of the adapter: it needs its clock
//	38  a file copied while it is written to is a queue with everything that was
//	    acknowledged; a full disk and a long reader harm nobody                    ReopenKeepsEverything, and tests of the adapter
//
// Scenarios, whose names begin with W and a number, tell what went wrong in queues that people use.
package queuetest
