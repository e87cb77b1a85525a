package demo

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Provider is the language-model service that the demo's workers call: a real HTTP server that really waits, and
// really refuses calls above its rate of tokens. It keeps its own account, apart from Headrace's, of who called.
type Provider struct {
	perSecond float64
	burst     float64

	mu       sync.Mutex
	tokens   float64 // that may be used now
	filledAt time.Time
	used     float64
	calls    int64
	refused  int64
	answered map[int]int // complete answers, by the number of the task
}

// NewProvider returns a provider with a limit and two seconds of burst.
func NewProvider(tokensPerMinute int) *Provider {
	per := float64(tokensPerMinute) / 60
	return &Provider{perSecond: per, burst: 2 * per, tokens: 2 * per, filledAt: time.Now(), answered: map[int]int{}}
}

// Answer is what the provider says.
type Answer struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
}

// ServeHTTP answers POST with a [Task] as its body.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t Task
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !p.admit(float64(t.Tokens)) {
		w.Header().Set("Retry-After", strconv.Itoa(1))
		http.Error(w, "rate limit reached", http.StatusTooManyRequests)
		return
	}
	timer := time.NewTimer(time.Duration(t.Millis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return // the caller is gone: nobody got an answer
	case <-timer.C:
	}
	p.mu.Lock()
	p.answered[t.Number]++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(Answer{Number: t.Number, Text: "summary " + strconv.Itoa(t.Number), Tokens: t.Tokens}) //nolint:errcheck // the caller is gone
}

// admit counts the call and says whether the limit allows it. A call larger than the burst is let in when nothing was used.
func (p *Provider) admit(tokens float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.tokens = min(p.burst, p.tokens+now.Sub(p.filledAt).Seconds()*p.perSecond)
	p.filledAt = now
	p.calls++
	if p.tokens < min(tokens, p.burst) {
		p.refused++
		return false
	}
	p.tokens -= tokens
	p.used += tokens
	return true
}

// Account is what the provider has seen.
type Account struct {
	Calls, Refused int64
	Used           float64 // tokens
	Answered       map[int]int
}

// Account returns a copy of the provider's account.
func (p *Provider) Account() Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := Account{Calls: p.calls, Refused: p.refused, Used: p.used, Answered: make(map[int]int, len(p.answered))}
	maps.Copy(a.Answered, p.answered)
	return a
}
