package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/config"
)

func newConfigCmd(c *cli) *cobra.Command {
	return newGroupCmd("config", "Look at the configuration", newConfigCheckCmd(c), newConfigShowCmd(c), newConfigSchemaCmd(c))
}

func newConfigCheckCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "check [PATH]",
		Short:   "Report every problem at once; exit code 3 when there are errors",
		Example: "  headrace config check\n  headrace config check shop.yaml -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := c.configPath(args)
			cfg, problems := config.Load(path, c.env)
			if err := c.printProblems(problems); err != nil {
				return err
			}
			errorCount, warnings := problems.Errors(), problems.Warnings()
			if errorCount > 0 {
				fmt.Fprintf(c.stderr, "%s: %s, %s\n", path, numberOf(errorCount, "error"), numberOf(warnings, "warning"))
				return exitError{exitBad, nil}
			}
			fmt.Fprintf(c.stderr, "%s: good: %s, %s\n", path, numberOf(len(cfg.Pools), "pool"), numberOf(warnings, "warning"))
			return nil
		},
	}
}

// printProblems writes problems as the command's data.
func (c *cli) printProblems(problems config.Problems) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	switch c.output {
	case "json":
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Valid    bool            `json:"valid"`
			Problems config.Problems `json:"problems"`
		}{problems.Errors() == 0, append(config.Problems{}, problems...)}) // an empty list is [], not null
	case "ndjson":
		for _, p := range problems {
			if err := enc.Encode(p); err != nil {
				return err
			}
		}
		return nil
	default:
		return problems.Print(c.stdout)
	}
}

func newConfigShowCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "show [PATH]",
		Short:   "Print all that holds, with the origin of every value and secrets hidden",
		Example: "  headrace config show",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := c.load(c.configPath(args))
			if err != nil {
				return err
			}
			enc := json.NewEncoder(c.stdout)
			enc.SetEscapeHTML(false)
			switch c.output {
			case "json":
				enc.SetIndent("", "  ")
				return enc.Encode(struct {
					Settings []config.Setting `json:"settings"`
				}{cfg.Settings()})
			case "ndjson":
				for _, s := range cfg.Settings() {
					if err := enc.Encode(s); err != nil {
						return err
					}
				}
				return nil
			default:
				return config.Show(c.stdout, cfg)
			}
		},
	}
}

func newConfigSchemaCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration, for editors",
		Example: "  headrace config schema > headrace.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.stdout.Write(config.Schema())
			return err
		},
	}
}

func (c *cli) configPath(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return c.config
}

// load reads the configuration that a command is about to use. Problems are talk here: warnings are printed and errors
// are returned, both with their places.
func (c *cli) load(path string) (*config.Config, error) {
	cfg, problems := config.Load(path, c.env)
	if err := problems.Err(); err != nil {
		problems.Print(c.stderr) //nolint:errcheck // nobody is left to tell
		return nil, exitError{exitFailed, errors.New("the configuration " + path + " cannot be used")}
	}
	return cfg, problems.Print(c.stderr)
}

func numberOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
