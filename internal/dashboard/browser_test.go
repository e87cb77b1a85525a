//go:build browser

package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/dashboard"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/httpapi"
	journalsqlite "github.com/headrace/headrace/internal/journal/sqlite"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
	"github.com/headrace/headrace/scale"
)

// These tests look at the page in Chromium: go test -tags browser ./internal/dashboard. They need one of these.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// refusing is an actuator that cannot do what it is told, for a reason that a stranger wrote.
type refusing struct{}

const strange = `<img src=x onerror="document.title='owned'">`

func (refusing) Count(context.Context) (actuator.Count, error) {
	return actuator.Count{At: time.Now()}, nil
}

func (refusing) Scale(context.Context, int, []string) error {
	return fmt.Errorf("refused: %s", strange)
}

// server is the real API with a running control loop and the page, of the pools "enrich" and "idle".
type server struct {
	*httptest.Server
	stop func() // ends the loop
}

func newServer(t *testing.T, token string) *server {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "queue.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journalsqlite.Open(t.Context(), filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	use := []scale.Use{{Downstream: "provider", Unit: "tokens", UnitsPerJob: 60, Permits: true}}
	policies := []scale.Policy{
		{Pool: "enrich", Min: 2, Max: 9, ServiceTime: time.Second, Objective: scale.Objective{OldestAge: time.Minute}, Downstreams: use},
		{Pool: "idle", Max: 5},
	}
	queues := map[string]queue.Queue{}
	var pools []control.Pool
	for _, p := range policies {
		q, err := db.Queue(t.Context(), p.Pool, queue.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		queues[p.Pool] = q
		pools = append(pools, control.Pool{Policy: p, Queue: q, Actuator: refusing{}})
	}
	f := fleet.New(time.Minute)
	store := downstreammemory.New(map[string][]downstream.Limit{"provider": {{Unit: "tokens", PerSecond: 1500}}})
	loop, err := control.New(t.Context(), pools, j, f, store, control.Options{Cycle: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	s := &server{stop: func() { cancel(); running.Wait() }}
	s.Server = httptest.NewServer(httpapi.New(httpapi.Deps{
		Pools: queues, Dispatcher: dispatch.New(nil, f, store), Loop: loop, Journal: j, Fleet: f, Store: store,
		Downstreams: []string{"provider"}, Pages: dashboard.Handler(),
		Find: func(ctx context.Context, id string) (string, queue.Record, error) {
			r, err := db.Find(ctx, id)
			return r.Queue, r, err
		},
	}, httpapi.Options{Token: token, Version: "v0.0.0-test"}))
	t.Cleanup(func() {
		s.Close()
		s.stop()
		j.Close()
		db.Close()
	})
	var jobs []queue.Job
	for range 1234 {
		jobs = append(jobs, queue.Job{Payload: []byte("{}")})
	}
	queues["enrich"].(queue.Publisher).Publish(t.Context(), jobs)
	return s
}

// pools reads the API as the page does.
func (s *server) pools(t *testing.T) (pools []httpapi.Pool) {
	t.Helper()
	resp, err := http.Get(s.URL + "/api/v1/pools")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list httpapi.PoolList
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return list.Items
}

// tab is a browser tab that remembers what went wrong in it and whom it talked to.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string
	hosts    map[string]bool
}

func newTab(t *testing.T) *tab {
	t.Helper()
	found := ""
	for _, name := range browsers {
		if p, err := exec.LookPath(name); err == nil {
			found = p
			break
		}
	}
	if found == "" {
		t.Fatalf("no browser: install one of %s (Debian: apt-get install chromium)", strings.Join(browsers, ", "))
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(found), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	b := &tab{t: t, hosts: map[string]bool{}}
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithListener(func(ev any) {
		if e, ok := ev.(*network.EventRequestWillBeSent); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			if scheme, rest, ok := strings.Cut(e.Request.URL, "://"); ok && scheme != "data" {
				host, _, _ := strings.Cut(rest, "/")
				b.hosts[host] = true
			}
		}
	}))
	t.Cleanup(cancel)
	b.ctx = ctx
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleLog {
				b.mu.Lock()
				b.messages = append(b.messages, m.String())
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cancel(); listening.Wait() })
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// text returns what a person reads in the first element that matches.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").replace(/\s+/g, " ").trim()`, selector))
}

func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) until(what string, cond func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("waited 20 s for %s; the page says:\n%s", what, b.text("body"))
		}
	}
}

// complained returns what the console said, and forgets it.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.messages
	b.messages = nil
	return m
}

func TestPageShowsWhatTheAPISays(t *testing.T) {
	s, b := newServer(t, ""), newTab(t)
	b.do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.URL+"/"))
	b.until("the pool", func() bool { return b.text("#pool-heading") == "enrich" && b.text("#steps tr") != "" })

	row := func(name string) string {
		return eval[string](b, fmt.Sprintf(`[...document.querySelectorAll("#pools tr")].find(r => r.cells[0].innerText === %q)?.innerText.replace(/\s+/g, " ").trim() ?? ""`, name))
	}
	for _, p := range s.pools(t) {
		want := []string{strings.ReplaceAll(string(p.State), "_", " ")}
		switch p.Name {
		case "enrich":
			want = append(want, "1 234", "/ 1m", fmt.Sprintf("%d ▸ %d", p.Desired, p.Wanted))
			if p.Wanted <= p.Desired || p.Desired == 0 {
				t.Fatalf("the story is wrong: %d wanted, %d desired", p.Wanted, p.Desired)
			}
		case "idle":
			want = append(want, "0s / none", " 0 ")
		}
		for _, text := range want {
			if got := row(p.Name); !strings.Contains(got, text) {
				t.Errorf("row of %s: got %q, without %q", p.Name, got, text)
			}
		}
	}
	if got := b.text("#why-heading"); !strings.HasPrefix(got, "Why ") || b.text("#verdict") == "" {
		t.Errorf("why panel: got %q %q", got, b.text("#verdict"))
	}
	if n := eval[int](b, `document.querySelectorAll("#steps tr[data-binding]").length`); n != 1 {
		t.Errorf("%d steps are marked as binding, want 1", n)
	}
	if n := eval[int](b, `[...document.querySelectorAll(".plot")].filter(p => p.querySelector("path.line")?.getAttribute("d")).length`); n != 4 {
		t.Errorf("%d charts have a line, want 4", n)
	}
	if got := b.text("#downstreams"); !strings.Contains(got, "provider") || !strings.Contains(got, "90k tokens/min") {
		t.Errorf("downstreams: got %q", got)
	}
	if got := b.text("#pool-trouble"); !strings.Contains(got, strange) {
		t.Errorf("the actuator's error must be shown as it is: got %q", got)
	}
	if title := eval[string](b, `document.title`); strings.Contains(title, "owned") {
		t.Error("text of a stranger ran as code")
	}
	// Another pool by keyboard: the link, then Enter.
	b.do(chromedp.Focus(`#pools tr:last-child a`), chromedp.KeyEvent("\r"))
	b.until("the other pool", func() bool { return b.text("#pool-heading") == "idle" })
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the console says: %q", got)
	}
	host := strings.TrimPrefix(s.URL, "http://")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hosts) != 1 || !b.hosts[host] {
		t.Errorf("talked to %v, want only %s", b.hosts, host)
	}
}

func TestPageFitsAPhoneInBothThemes(t *testing.T) {
	s, b := newServer(t, ""), newTab(t)
	for _, scheme := range []string{"light", "dark"} {
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile), chromedp.Navigate(s.URL+"/"))
		b.until("the pool", func() bool { return b.text("#steps tr") != "" })
		if w := eval[int](b, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("%s: the page is %d px wide, want at most 360", scheme, w)
		}
		if bad := eval[[]string](b, contrast); len(bad) > 0 {
			t.Errorf("%s: text with less contrast than 4.5: %q", scheme, bad)
		}
	}
}

// contrast lists visible texts whose colour is too near to what is behind it (WCAG 2.2, 1.4.3).
const contrast = `(() => {
	const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgb = (c) => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = c; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data]; };
	const light = (c) => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest("option, noscript, .skip")) continue;
		const style = getComputedStyle(e);
		const [a, b] = [light(rgb(e instanceof SVGElement ? style.fill : style.color)), light(behind(e))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.push(e.textContent.trim().slice(0, 40) + " " + ratio.toFixed(2));
	}
	return bad;
})()`

func TestPageSaysWhenNothingIsReadAnyMore(t *testing.T) {
	s, b := newServer(t, ""), newTab(t)
	b.do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.URL+"/"))
	b.until("the pool", func() bool { return b.text("#steps tr") != "" })
	stale := func() bool { return eval[bool](b, `document.documentElement.classList.contains("stale")`) }
	if stale() || b.text("#banner") != "" {
		t.Fatalf("a fresh page is stale: %s", b.text("#banner"))
	}
	s.stop()
	b.until("the stopped loop", func() bool {
		return stale() && strings.HasPrefix(b.text("#banner"), "unread for ") && strings.Contains(b.text("#banner"), "control loop")
	})
	s.Close()
	b.until("the missing server", func() bool { return strings.Contains(b.text("#banner"), "cannot be reached") })
	if got := b.text("#pools"); !strings.Contains(got, "enrich") {
		t.Errorf("what was read last is gone: %q", got)
	}
}

func TestPageAsksForTheToken(t *testing.T) {
	s, b := newServer(t, "hunter2"), newTab(t)
	b.do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.URL+"/"), chromedp.WaitVisible("#login"))
	b.do(chromedp.SendKeys("#token", "wrong\r"))
	b.until("the refusal", func() bool { return strings.Contains(b.text("#login-problem"), "did not accept") })
	b.do(chromedp.SendKeys("#token", "hunter2\r"))
	b.until("the pool", func() bool { return b.text("#pool-heading") == "enrich" })
	if eval[bool](b, `document.querySelector("#login").checkVisibility()`) {
		t.Error("the form is still there")
	}
	if eval[int](b, `localStorage.length + document.cookie.length`) != 0 {
		t.Error("the token outlives the tab")
	}
}
