package protocol_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// TestWireFormat pins what programs in other languages rely on: names, base64, seconds, and what is left out.
func TestWireFormat(t *testing.T) {
	retry := protocol.Seconds(1.5)
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"claim", protocol.ClaimRequest{Worker: "w", Max: 2, Wait: 20, Slots: 4},
			`{"worker":"w","max":2,"wait":20,"slots":4}`},
		{"lease", protocol.ClaimAnswer{Leases: []protocol.Lease{{
			ID: "j", Token: 7, Job: "j", Attempt: 1, Payload: []byte("hi"), ExpiresIn: 60, MaxIn: 3600, HeartbeatEvery: 20,
			Permits: map[string]map[string]float64{"llm": {"tokens": 62}},
		}}, Order: protocol.Run},
			`{"leases":[{"id":"j","token":7,"job":"j","attempt":1,"payload":"aGk=","expires_in":60,"max_in":3600,` +
				`"heartbeat_every":20,"permits":{"llm":{"tokens":62}}}],"order":"run"}`},
		{"heartbeat", protocol.HeartbeatRequest{Worker: "w", Pool: "p", Slots: 1, Busy: 1, Incarnation: "i",
			Leases: []protocol.LeaseRef{{ID: "j", Token: 7}}},
			`{"worker":"w","pool":"p","slots":1,"busy":1,"leases":[{"id":"j","token":7}],"incarnation":"i","totals":` +
				`{"acked":0,"nacked":0,"released":0,"dead":0,"crashed":0,"busy_seconds":0,"busy_squares":0,"runs":0}}`},
		{"heartbeat's answer", protocol.HeartbeatAnswer{Leases: []protocol.LeaseState{{ID: "j", State: protocol.LeaseLost}}, Order: protocol.Drain},
			`{"leases":[{"id":"j","state":"lost"}],"order":"drain"}`},
		{"settlement", protocol.SettleRequest{Pool: "p", Items: []protocol.Settlement{
			{Lease: "j", Token: 7, Action: "ack", Result: []byte("hi")},
			{Lease: "k", Token: 8, Action: "release", RetryIn: &retry, Outcomes: map[string]string{"llm": "throttled"}},
		}},
			`{"pool":"p","items":[{"lease":"j","token":7,"action":"ack","result":"aGk="},` +
				`{"lease":"k","token":8,"action":"release","retry_in":1.5,"outcomes":{"llm":"throttled"}}]}`},
		{"permit", protocol.PermitRequest{Downstream: "llm", Units: map[string]float64{"tokens": 62}, MaxWait: 20},
			`{"downstream":"llm","units":{"tokens":62},"max_wait":20}`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\ngot  %s %v\nwant %s", c.name, got, err, c.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 1500 * time.Millisecond, time.Hour, -time.Second} {
		if got := protocol.SecondsOf(d).Duration(); got != d {
			t.Errorf("got %v, want %v", got, d)
		}
	}
	for s, want := range map[protocol.Seconds]time.Duration{1e300: math.MaxInt64, -1e300: math.MinInt64} {
		if got := s.Duration(); got != want {
			t.Errorf("%g: got %v, want %v", s, got, want)
		}
	}
	if got := protocol.Seconds(math.NaN()).Duration(); got != 0 {
		t.Errorf("not a number: got %v, want 0", got)
	}
}
