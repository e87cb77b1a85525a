package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/actuator/process"
)

// newGuardCmd runs a worker so that nothing of it outlives the process actuator; see [process.Guard].
func newGuardCmd(*cli) *cobra.Command {
	return &cobra.Command{
		Use:    "guard -- CMD [ARG...]",
		Short:  "Run a command that dies, with all it started, when standard input ends",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			os.Exit(process.Guard(args)) // as the command did, whatever its code means to it; and its last words stay the last
			return nil
		},
	}
}
