// Package worker runs jobs safely: it claims them for its free slots, keeps their leases, settles them, and
// leaves without losing any.
//
// # A worker
//
//	conn := worker.Dial("http://127.0.0.1:8480", "emails", worker.DialOptions{})
//	w := worker.New(conn, func(ctx context.Context, job *worker.Job) ([]byte, error) {
//		return send(ctx, job.Payload)
//	}, worker.Options{Slots: 8})
//	err := w.RunUntilSignal(ctx)
//
// A nil error acknowledges the job and stores the result. [Permanent] sends it to the dead letters, [ErrRelease] and
// [ReleaseAfter] give it back without counting an attempt, [*Throttled] gives it back and makes the whole fleet leave
// the downstream alone for a while, [Crashed] counts as the death of what ran it. Any other error, and a panic, is a
// failed attempt; the queue repeats it after a delay that grows.
//
// Started by an actuator, a worker finds its server, pool and name in the environment: [ReadEnvironment]. In the same
// process as the queue, it uses [Local] in place of [Dial].
//
// # Programs in other languages
//
// [Command] runs a program once a job: payload on standard input, result on standard output, verdict as exit code.
// [HTTP] posts each job to a program that listens.
//
// # What a handler may rely on
//
// The job is this worker's alone while ctx lives. The lease is extended in the background for as long as the handler
// runs; when it is lost all the same, or has been held as long as the queue allows, or the worker has to go, ctx is
// cancelled and [context.Cause] says which: [ErrLeaseLost], [ErrLeaseMax], [ErrCancelled], [ErrStopping]. ctx.Err()
// looks at the clock, so calling it before a side effect is a true check even in a process that was asleep.
//
// A job is delivered at least once. The second delivery has the same ID: use it as the key of side effects.
//
// A handler that ignores its context cannot be stopped from within. Its slot counts as leaked; when all slots have
// leaked, [Worker.Run] returns [ErrWedged] so that the process can be replaced.
//
// # How a worker ends
//
//	signal, or ctx done            second signal, or Stop
//	      │                              │
//	      ▼                              ▼
//	claims nothing more ──────────▶ cancels handlers ──────▶ settles, last report, goodbye ──▶ Run returns
//	finishes what runs,  grace less  releases what they
//	extending it         its margin  did not finish
//
// A job released this way runs elsewhere at once, and it does not count as an attempt. A finished job whose settlement
// the queue does not confirm, because it cannot be reached, keeps its lease and is offered again until it is confirmed
// or the grace is over.
package worker
