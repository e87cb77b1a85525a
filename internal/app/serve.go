package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// server is an HTTP server whose end waits for answers, but not for clients: requests that wait for something are told
// to answer now, and connections that never sent a request are closed.
type server struct {
	http.Server

	mu     sync.Mutex
	fresh  map[net.Conn]bool // open, without a request yet
	ending bool
}

// newServer returns a server that no client can hold a connection of for ever. The longest a request may wait on
// purpose is a minute.
func newServer(h http.Handler, log *slog.Logger) *server {
	s := &server{fresh: map[net.Conn]bool{}}
	waits, endWaits := context.WithCancel(context.Background())
	s.Server = http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return waits },
		ConnState:   s.track,
	}
	s.RegisterOnShutdown(endWaits)
	s.RegisterOnShutdown(s.closeFresh)
	return s
}

func (s *server) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.fresh, c)
	case s.ending:
		c.Close()
	default:
		s.fresh[c] = true
	}
}

func (s *server) closeFresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.fresh {
		c.Close()
	}
}

// end lets requests under way be answered, for at most within, and returns when no connection is left.
func (s *server) end(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(err, s.Close())
	}
	return s.Close() // clients that do not read their answers
}
