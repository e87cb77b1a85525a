package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// serve runs s on a loopback port and returns its address. The test's end waits for it.
func serve(t *testing.T, s *server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return l.Addr().String()
}

// A client that waits for something is answered when the server ends, and one that only holds a connection delays
// nothing.
func TestTheEndOfTheServerWaitsForNoClient(t *testing.T) {
	waiting := make(chan struct{}, 1)
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waiting <- struct{}{}
		<-r.Context().Done()
		fmt.Fprint(w, "as it is now")
	}), slog.New(slog.DiscardHandler))
	addr := serve(t, s)

	held, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + addr)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-waiting

	began := time.Now()
	if err := s.end(context.Background(), 10*time.Second); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end took %v", took)
	}
	if got := <-answer; got != "as it is now" {
		t.Errorf("the waiting client got %q, want its answer", got)
	}
}

// A client that promises a body and never sends it does not keep its connection, whether or not anybody reads the body.
func TestAStalledBodyKeepsNoConnection(t *testing.T) {
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }),
		slog.New(slog.DiscardHandler))
	s.ReadTimeout = min(s.ReadTimeout, 100*time.Millisecond)
	conn, err := net.Dial("tcp", serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection is still open: %v", err)
	}
}
