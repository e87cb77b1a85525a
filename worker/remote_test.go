package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
	"github.com/headrace/headrace/worker/protocol"
)

// server speaks the worker protocol for one queue.
type server struct {
	*httptest.Server
	q queue.Queue

	mu       sync.Mutex
	conns    map[string]worker.Conn // by worker
	goodbyes []string
	// hook sees each request before it is served; false: it was answered.
	hook func(http.ResponseWriter, *http.Request) bool
	// drop cuts the connection after the request was served, so that its answer is lost.
	drop func(*http.Request) bool
}

func serve(t *testing.T, q queue.Queue) *server {
	s := &server{q: q, conns: map[string]worker.Conn{}}
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc("POST "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.hook != nil && !s.hook(w, r) {
				return
			}
			answer, err := f(r)
			if s.drop != nil && s.drop(r) {
				panic(http.ErrAbortHandler)
			}
			switch {
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			case answer == nil:
				w.WriteHeader(http.StatusNoContent)
			default:
				_ = json.NewEncoder(w).Encode(answer)
			}
		})
	}
	handle(protocol.ClaimPath, func(r *http.Request) (any, error) {
		in, err := read[protocol.ClaimRequest](r)
		if err != nil {
			return nil, err
		}
		a, err := s.conn(in.Worker).Claim(r.Context(), in)
		if r.Context().Err() != nil { // nobody reads the answer
			var back []protocol.Settlement
			for _, l := range a.Leases {
				back = append(back, protocol.Settlement{Lease: l.ID, Token: l.Token, Action: "release"})
			}
			_, err := s.conn(in.Worker).Settle(context.WithoutCancel(r.Context()), back)
			return nil, err
		}
		if err != nil || len(a.Leases) == 0 {
			return nil, err
		}
		return a, nil
	})
	handle(protocol.HeartbeatPath, func(r *http.Request) (any, error) {
		in, err := read[protocol.HeartbeatRequest](r)
		if err != nil {
			return nil, err
		}
		return s.conn(in.Worker).Heartbeat(r.Context(), in)
	})
	handle(protocol.SettlePath, func(r *http.Request) (any, error) {
		in, err := read[protocol.SettleRequest](r)
		if err != nil {
			return nil, err
		}
		items, err := s.conn(in.Worker).Settle(context.WithoutCancel(r.Context()), in.Items)
		return protocol.SettleAnswer{Items: items}, err
	})
	handle(protocol.GoodbyePath, func(r *http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.goodbyes = append(s.goodbyes, r.PathValue("worker"))
		return nil, nil
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func read[T any](r *http.Request) (v T, err error) {
	return v, json.NewDecoder(r.Body).Decode(&v)
}

func (s *server) conn(name string) worker.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[name] == nil {
		s.conns[name] = worker.Local(s.q, worker.LocalOptions{Worker: name})
	}
	return s.conns[name]
}

func (s *server) saidGoodbye() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.goodbyes...)
}

// await waits for a job to end.
func (r rig) await(id string) queue.Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rec, err := r.q.Await(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	if !rec.State.Terminal() {
		r.t.Fatalf("job %s is still %s after 10s", id, rec.State)
	}
	return rec
}

func TestRemoteCarriesAJobThereAndItsResultBack(t *testing.T) {
	r := newRig(t, queue.Policy{})
	s := serve(t, r.q)
	id := r.q.Publish(t.Context(), []queue.Job{{
		Payload: []byte("a\x00b\xff"), Tenant: "gold", Priority: 3, Headers: map[string]string{"k": "v"},
	}})[0].ID
	var got *worker.Job
	w := start(t, worker.Dial(s.URL, "pool/ü", worker.DialOptions{Worker: "w 1/x"}), func(_ context.Context, job *worker.Job) ([]byte, error) {
		got = job
		return []byte("c\x00d\xff"), nil
	}, worker.Options{})
	rec := r.await(id)
	w.endCleanly()
	if string(rec.Result) != "c\x00d\xff" {
		t.Errorf("result: got %q", rec.Result)
	}
	type fields struct {
		ID, Pool, Tenant, Payload  string
		Attempt, Crashes, Priority int
		Headers                    map[string]string
	}
	have := fields{got.ID, got.Pool, got.Tenant, string(got.Payload), got.Attempt, got.Crashes, got.Priority, got.Headers}
	want := fields{id, "pool/ü", "gold", "a\x00b\xff", 1, 0, 3, map[string]string{"k": "v"}}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("job (-want +got):\n%s", d)
	}
	if until := time.Until(got.Deadline); until < 59*time.Minute || until > time.Hour {
		t.Errorf("deadline: got in %v, want lease.max, an hour", until)
	}
	if d := cmp.Diff([]string{"w 1/x"}, s.saidGoodbye()); d != "" {
		t.Errorf("goodbyes (-want +got):\n%s", d)
	}
}

func TestRemoteTokens(t *testing.T) {
	r := newRig(t, queue.Policy{})
	s := serve(t, r.q)
	var valid atomic.Value
	valid.Store("Bearer one")
	s.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == valid.Load() {
			return true
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"title":"unauthorized","detail":"the token is not valid"}`))
		return false
	}
	w := start(t, worker.Dial(s.URL, "p", worker.DialOptions{Token: "two"}), work(0), worker.Options{})
	err := <-w.done
	if !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "unauthorized: the token is not valid") {
		t.Errorf("wrong token: got %v, want ErrRefused with the problem's text", err)
	}
	w.drain()

	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = start(t, worker.Dial(s.URL, "p", worker.DialOptions{TokenFile: file}), work(0), worker.Options{Wait: 50 * time.Millisecond})
	r.await(r.publish("a")[0])
	valid.Store("Bearer three") // rotated, without a restart
	if err := os.WriteFile(file, []byte("three"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.await(r.publish("b")[0])
	w.endCleanly()
}

// TestRemoteLosesNothingOnABadNetwork: every third answer of heartbeats and settlements, and one claim in ten, is lost
// after the server has done its part. Each job ends once; only jobs whose claim's answer was lost start late.
func TestRemoteLosesNothingOnABadNetwork(t *testing.T) {
	r := newRig(t, queue.Policy{Lease: 300 * time.Millisecond, AfterCrashes: 1000, Attempts: 1000})
	s := serve(t, r.q)
	var n atomic.Int64
	var mended atomic.Bool
	s.drop = func(r *http.Request) bool {
		if mended.Load() {
			return false
		}
		every := int64(3)
		if strings.HasSuffix(r.URL.Path, "/claims") {
			every = 10
		}
		return n.Add(1)%every == 0
	}
	const jobs = 100
	ids := make([]string, jobs)
	for i := range ids {
		ids[i] = r.publish("x")[0]
	}
	var mu sync.Mutex
	ran := map[string]int{}
	w := start(t, worker.Dial(s.URL, "p", worker.DialOptions{}), func(_ context.Context, job *worker.Job) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		ran[job.ID]++
		return []byte("r"), nil
	}, worker.Options{Slots: 8})
	for _, id := range ids {
		if rec := r.await(id); rec.State != queue.Succeeded {
			t.Errorf("got %s, want succeeded", rec.State)
		}
	}
	mended.Store(true)
	w.endCleanly()
	for id, n := range ran {
		if n != 1 {
			t.Errorf("job %s ran %d times, want 1", id, n)
		}
	}
	if drift, err := r.q.Drift(t.Context()); err != nil || len(drift) > 0 {
		t.Errorf("drift: got %v, %v, want none", drift, err)
	}
}

// TestW6_RemoteClaimInFlightAtSIGTERM: the long poll is open when the worker goes and a job is published. It is free
// long before a lease would run out.
func TestW6_RemoteClaimInFlightAtSIGTERM(t *testing.T) {
	r := newRig(t, queue.Policy{})
	s := serve(t, r.q)
	var polls atomic.Int32
	s.hook = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/claims") {
			polls.Add(1)
		}
		return true
	}
	for i := range 20 {
		before := polls.Load()
		w := start(t, worker.Dial(s.URL, "p", worker.DialOptions{}), work(0), worker.Options{})
		for polls.Load() == before {
			time.Sleep(time.Millisecond)
		}
		var wg sync.WaitGroup
		var id string
		wg.Go(func() { id = r.publish("late")[0] })
		began := time.Now()
		w.endCleanly()
		wg.Wait()
		for r.get(id).State == queue.Leased {
			if time.Since(began) > 5*time.Second {
				t.Fatalf("round %d: still leased after 5s", i)
			}
			time.Sleep(time.Millisecond)
		}
		if rec := r.get(id); rec.State == queue.Ready {
			if _, err := r.q.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("round %d: took %v, want to leave at once", i, took)
		}
	}
}

func TestServerThatIsAwayForAWhile(t *testing.T) {
	r := newRig(t, queue.Policy{Lease: 10 * time.Second})
	s := serve(t, r.q)
	id := r.publish("x")[0]
	var away atomic.Bool
	s.hook = func(http.ResponseWriter, *http.Request) bool {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	w := start(t, worker.Dial(s.URL, "p", worker.DialOptions{}), func(context.Context, *worker.Job) ([]byte, error) {
		away.Store(true)
		time.AfterFunc(time.Second, func() { away.Store(false) })
		return []byte("kept"), nil
	}, worker.Options{})
	if rec := r.await(id); string(rec.Result) != "kept" || rec.Attempts != 1 {
		t.Errorf("got %q after %d attempts, want the result of the only one", rec.Result, rec.Attempts)
	}
	w.endCleanly()
}

func TestNoGoodbyeWhileAHandlerRuns(t *testing.T) {
	r := newRig(t, queue.Policy{})
	s := serve(t, r.q)
	r.publish("x")
	began, hang := make(chan struct{}), make(chan struct{})
	w := start(t, worker.Dial(s.URL, "p", worker.DialOptions{}), func(context.Context, *worker.Job) ([]byte, error) {
		close(began)
		<-hang
		return nil, nil
	}, worker.Options{Grace: 200 * time.Millisecond})
	<-began
	if err := w.end(); err == nil {
		t.Error("run: got nil, want an error")
	}
	if got := s.saidGoodbye(); len(got) != 0 {
		t.Errorf("goodbyes: got %v, want none: it would release what still runs", got)
	}
	close(hang)
}
