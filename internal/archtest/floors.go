package archtest

const module = "github.com/headrace/headrace"

// pure is the part of the standard library that the engine may use: no context, no clock that ticks, no I/O.
var pure = []string{"cmp", "errors", "fmt", "math", "slices", "strings", "time"}

// Floors is the layout of the project, one row a package. A package imports only packages of lower floors, and those
// that its row names. docs/architecture.md draws it.
func Floors() []Row {
	return []Row{
		// 0: the engine. Pure: numbers in, decisions out.
		{Package: "scale", Floor: 0, Std: pure},
		{Package: "internal/estimate", Floor: 0, Std: pure, Also: []string{"scale"}},
		{Package: "internal/archtest", Floor: 0},

		// 1: contracts, and the suites that hold adapters to them. They know nothing of the engine, except the journal, which
		// records its decisions.
		{Package: "queue", Floor: 1, Uses: []string{"github.com/google/uuid"}},
		{Package: "queue/queuetest", Floor: 1, Suite: true, Also: []string{"queue"}, Uses: []string{"github.com/google/go-cmp", "pgregory.net/rapid"}},
		{Package: "queue/internal/ledger", Floor: 1, Also: []string{"queue"}, Uses: []string{"github.com/google/uuid"}},
		{Package: "actuator", Floor: 1},
		{Package: "actuator/actuatortest", Floor: 1, Suite: true, Also: []string{"actuator"}, Uses: []string{"github.com/google/go-cmp"}},
		{Package: "downstream", Floor: 1},
		{Package: "downstream/downstreamtest", Floor: 1, Suite: true, Also: []string{"downstream"}},
		{Package: "worker/protocol", Floor: 1},
		{Package: "internal/journal", Floor: 1, Also: []string{"scale"}},
		{Package: "internal/journal/journaltest", Floor: 1, Suite: true, Also: []string{"internal/journal", "scale"}},

		// 2: adapters. They know nothing of each other.
		{Package: "queue/memory", Floor: 2, Uses: []string{"github.com/google/uuid"}},
		{Package: "queue/sqlite", Floor: 2, Uses: []string{"github.com/google/uuid", "golang.org/x/sys", "modernc.org/sqlite"}},
		{Package: "actuator/process", Floor: 2, Uses: []string{"github.com/google/uuid", "golang.org/x/sys"}},
		{Package: "actuator/dryrun", Floor: 2},
		{Package: "downstream/memory", Floor: 2},
		{Package: "internal/journal/sqlite", Floor: 2, Uses: []string{"modernc.org/sqlite"}},

		// 3: the two planes. They meet in numbers only.
		{Package: "worker", Floor: 3, Uses: []string{"github.com/google/uuid", "golang.org/x/sys"}, Apart: []string{"internal/control", "internal/dispatch"}},
		{Package: "internal/fleet", Floor: 3},
		{Package: "internal/dispatch", Floor: 3, Also: []string{"internal/fleet"}, Apart: []string{"internal/control", "worker"}},
		{Package: "internal/control", Floor: 3, Also: []string{"internal/fleet"}, Apart: []string{"worker", "internal/dispatch"}},

		// 4: surfaces.
		{Package: "internal/httpapi", Floor: 4, Uses: []string{"github.com/danielgtaylor/huma/v2"}},
		{Package: "internal/dashboard", Floor: 4},
		{Package: "internal/telemetry", Floor: 4, Uses: []string{"github.com/prometheus/client_golang"}},
		{Package: "internal/config", Floor: 4, Uses: []string{"go.yaml.in/yaml/v4"}},

		// 5: wiring. Only what is here and above knows the configuration file.
		{Package: "internal/app", Floor: 5},
		{Package: "internal/demo", Floor: 5, Also: []string{"internal/app"}},

		// 6: programs.
		{Package: "cmd/headrace", Floor: 6, Uses: []string{"github.com/spf13/cobra", "golang.org/x/sys"}},
	}
}
