package process

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/headrace/headrace/actuator"
)

// place is one replica: a succession of processes, of which at most one lives.
//
//	waiting for room ─▶ running ──── ended unasked ───▶ waiting to restart ─┐
//	      ▲                │                                                │
//	      └────────────────┼────────────────────────────────────────────────┘
//	                  told to go: drain ─▶ SIGTERM ─▶ SIGKILL
type place struct {
	a         *Actuator
	n         int // the number in its ids and the name of its log; free again when the place is gone
	orderedAt time.Time

	gone      chan struct{} // closed: told to go. Closed under Actuator.mu
	terminate chan struct{} // closed: without draining
	kill      chan struct{} // closed: without grace
	hurryOnce [2]sync.Once

	mu       sync.Mutex
	id       string // of the process that runs, or the next one
	alive    bool
	child    *child // while alive
	limited  bool   // waits for room
	restarts int
	trouble  string // how it died, while it keeps dying
}

func (p *place) going() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *place) terminateNow() { p.hurryOnce[0].Do(func() { close(p.terminate) }) }
func (p *place) killNow()      { p.hurryOnce[1].Do(func() { close(p.kill) }) }

// status is a place as seen from outside.
type status struct {
	actuator.Worker
	limited bool
	trouble string
}

func (p *place) status() status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := status{
		Worker:  actuator.Worker{ID: p.id, State: actuator.Starting, OrderedAt: p.orderedAt, Restarts: p.restarts},
		limited: p.limited, trouble: p.trouble,
	}
	if p.alive {
		s.State = actuator.Running
	}
	return s
}

func (p *place) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// run keeps a process alive until the place is told to go and its process has ended.
func (p *place) run() {
	log := p.a.opts.Log.With("pool", p.a.pool)
	quick := 0 // deaths in a row soon after the start
	for {
		room := p.a.opts.Limit.take(p.gone, func() { p.set(func() { p.limited = true }) })
		p.set(func() { p.limited = false })
		if !room {
			return
		}
		if p.going() {
			p.a.opts.Limit.give()
			return
		}
		exit, err := p.live()
		p.a.opts.Limit.give()
		how := exit.String()
		if err != nil {
			how = err.Error()
		} else if p.a.opts.OnExit != nil {
			p.a.opts.OnExit(p.id, exit)
		}
		if p.going() {
			return
		}
		quick++
		if exit.Ran >= p.a.opts.RestartReset {
			quick = 0
		}
		wait := p.a.restartWait(quick)
		log.Warn("worker ended unasked", "worker", p.id, "how", how, "ran", exit.Ran, "restart_in", wait)
		p.set(func() {
			p.restarts++
			p.id = p.newID()
			p.trouble = ""
			if quick > 0 {
				p.trouble = fmt.Sprintf("the last: %s; next try in %v", how, wait)
			}
		})
		select {
		case <-time.After(wait):
		case <-p.gone:
			return
		}
	}
}

// restartWait is the pause before a restart after quick deaths in a row.
func (a *Actuator) restartWait(quick int) time.Duration {
	if quick == 0 {
		return 0
	}
	d := a.opts.RestartMin
	for ; quick > 1 && d < a.opts.RestartMax; quick-- {
		d *= 2
	}
	return min(d, a.opts.RestartMax)
}

// live runs one process from its start to its end. An error means that it could not be started.
func (p *place) live() (Exit, error) {
	o := p.a.opts
	var sink io.Writer = io.Discard
	if o.LogDir != "" {
		f, err := openLog(filepath.Join(o.LogDir, fileName(p.a.pool)+"-"+strconv.Itoa(p.n)+".log"), o.LogMax)
		if err != nil {
			return Exit{}, err
		}
		defer f.Close()
		sink = f
	}
	out := &lastLine{w: sink}
	began := time.Now()
	c, err := start(o, []string{
		"HEADRACE_WORKER=" + p.id, "HEADRACE_POOL=" + p.a.pool, "HEADRACE_GRACE=" + o.Grace.String(),
	}, out)
	if err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", o.Argv[0], err)
	}
	o.Log.Info("worker started", "pool", p.a.pool, "worker", p.id, "pid", c.pid())
	p.set(func() { p.alive, p.child = true, c })

	// A worker that has run for a while is no longer one that keeps dying.
	steady := time.AfterFunc(o.RestartReset, func() { p.set(func() { p.trouble = "" }) })
	defer steady.Stop()

	asked := false
	select {
	case <-c.ended:
	case <-p.gone:
		asked = true
		p.end(c)
	}
	exit := c.exit
	exit.Asked, exit.Ran, exit.LastLine = asked, time.Since(began), out.line()
	p.set(func() { p.alive, p.child = false, nil })
	return exit, nil
}

// end makes the process go and returns when it has ended: drain, SIGTERM, SIGKILL.
func (p *place) end(c *child) {
	o := p.a.opts
	if o.Drain != nil && p.drained(c) {
		drainMax := time.NewTimer(o.DrainMax)
		defer drainMax.Stop()
		select {
		case <-c.ended:
			return
		case <-p.terminate:
		case <-drainMax.C:
			o.Log.Warn("drain takes too long", "pool", p.a.pool, "worker", p.id, "limit", o.DrainMax)
		}
	}
	c.terminate()
	grace := time.NewTimer(o.Grace)
	defer grace.Stop()
	select {
	case <-c.ended:
		return
	case <-p.kill:
	case <-grace.C:
		o.Log.Warn("worker outlived its grace: killed", "pool", p.a.pool, "worker", p.id, "grace", o.Grace)
	}
	c.kill()
	<-c.ended
}

// drained tells the worker to finish. It reports whether the worker was told and need not be signalled.
func (p *place) drained(c *child) bool {
	select {
	case <-p.terminate:
		return false
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	hurried := make(chan struct{})
	go func() {
		defer close(hurried)
		select {
		case <-p.terminate:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-hurried }()
	if err := p.a.opts.Drain(ctx, p.id); err != nil {
		p.a.opts.Log.Warn("drain: signal instead", "pool", p.a.pool, "worker", p.id, "error", err)
		return false
	}
	return true
}

// String says how a process ended and what it said last.
func (e Exit) String() string {
	how := "exit status " + strconv.Itoa(e.Code)
	if e.Signal != "" {
		how = "signal: " + e.Signal
	}
	if e.LastLine != "" {
		how += " (" + e.LastLine + ")"
	}
	return how
}
