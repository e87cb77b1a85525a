package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadEnvironment(t *testing.T) {
	read := func(vars map[string]string) (Environment, error) {
		return ReadEnvironment(func(name string) string { return vars[name] })
	}
	got, err := read(map[string]string{
		"HEADRACE_SERVER": "http://h:1", "HEADRACE_POOL": "p", "HEADRACE_WORKER": "w", "HEADRACE_TOKEN": "t",
		"HEADRACE_TOKEN_FILE": "f", "HEADRACE_SLOTS": "3", "HEADRACE_GRACE": "5s",
	})
	want := Environment{Server: "http://h:1", Pool: "p", Worker: "w", Token: "t", TokenFile: "f", Slots: 3, Grace: 5 * time.Second}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, err := read(nil); err != nil || got.Server == "" || got.Worker == "" || got.Slots != 1 {
		t.Errorf("of nothing: %+v, %v; want the defaults", got, err)
	}
	for name, bad := range map[string]string{"HEADRACE_SLOTS": "0", "HEADRACE_GRACE": "soon"} {
		if _, err := read(map[string]string{name: bad}); err == nil {
			t.Errorf("%s=%s was taken", name, bad)
		}
	}
}
