package config_test

import (
	"fmt"
	"os"

	"github.com/headrace/headrace/internal/config"
)

func ExampleParse() {
	text := `version: 1
pools:
  enrich:
    objective: { oldest_age: 10m }
    replicas: { min: 1, max: 24, starts_in: 25s }
    actuator: { command: "python3 worker.py" }
`
	cfg, problems := config.Parse("headrace.yaml", []byte(text), os.LookupEnv)
	if err := problems.Err(); err != nil {
		fmt.Println(err)
		return
	}
	p := cfg.Pools[0]
	fmt.Println(p.Name, "on", p.Broker+"/"+p.Queue, "may have", p.Scale.Max, "workers, says", p.Scale.MaxFrom)
	// Output: enrich on main/enrich may have 24 workers, says headrace.yaml:5
}

func ExampleProblems() {
	text := `version: 1
pools:
  enrich:
    objective: { oldest_age: 10m }
    replicas: { min: 1, mx: 24, starts_in: 25s }
    actuator: { command: "python3 worker.py" }
`
	_, problems := config.Parse("headrace.yaml", []byte(text), os.LookupEnv)
	fmt.Println(problems)
	// Output:
	// headrace.yaml:5:25: error: unknown key "mx"  (pools.enrich.replicas.mx)
	//     5 |     replicas: { min: 1, mx: 24, starts_in: 25s }
	//       |                         ^^ did you mean "max"?
}
