package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/config"
)

func newInitCmd(c *cli) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "init [FILE]",
		Short:   "Write a first configuration file, commented and good to run; - writes to stdout",
		Example: "  headrace init\n  headrace init - > shop.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := c.configPath(args)
			var text bytes.Buffer
			if err := config.Init(&text); err != nil {
				return err
			}
			if path == "-" {
				_, err := c.stdout.Write(text.Bytes())
				return err
			}
			if err := writeNew(path, text.Bytes(), force); err != nil {
				if errors.Is(err, fs.ErrExist) {
					return exitError{exitConflict, fmt.Errorf("%s exists; --force replaces it", path)}
				}
				return err
			}
			fmt.Fprintf(c.stderr, "Wrote %s. Next: headrace up --config %s\n", path, path)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file when it exists")
	return cmd
}

// writeNew never leaves half a file in place of a whole one.
func writeNew(path string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	name := path
	if force {
		name = path + ".new"
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(name)
		return err
	}
	if force {
		return os.Rename(name, path)
	}
	return nil
}
