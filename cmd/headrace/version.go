package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known of how this binary was made.
type build struct {
	Version  string `json:"version"` // of the module: "v0.1.0", or "(devel)"
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a changed work tree
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersionCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if c.output != "table" {
				return json.NewEncoder(c.stdout).Encode(b)
			}
			line := "headrace " + b.Version
			if b.Revision != "" {
				line += " " + b.Revision[:min(12, len(b.Revision))]
			}
			if b.Modified {
				line += " (modified)"
			}
			_, err := fmt.Fprintln(c.stdout, line, b.Go, b.Platform)
			return err
		},
	}
}
