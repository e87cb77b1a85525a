package process

import (
	"errors"
	"io"
)

const supported = false

// child is never made: there is no SIGTERM on Windows by which a worker could be asked to finish.
type child struct {
	ended chan struct{}
	exit  Exit
}

func start(Options, []string, io.Writer) (*child, error) { return nil, errors.ErrUnsupported }

func (*child) pid() int   { return 0 }
func (*child) terminate() {}
func (*child) kill()      {}
