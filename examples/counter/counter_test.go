package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/machine"
)

// ask asks a counter and returns what it says.
func ask(t *testing.T, c *counter, method, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	body := strings.TrimSpace(w.Body.String())
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, body)
	}
	return body
}

func TestCounter(t *testing.T) {
	members, dirs, counters := map[machine.NodeID]string{}, map[machine.NodeID]string{}, map[machine.NodeID]*counter{}
	start := func(id machine.NodeID, ln net.Listener) {
		c, err := newCounter(broadcast.Config{
			ID: id, Group: 1, Members: members, Listener: ln, Dir: dirs[id], Timeout: 500 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		counters[id] = c
	}
	listeners := map[machine.NodeID]net.Listener{}
	for id := machine.NodeID(1); id <= 3; id++ {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id], members[id], dirs[id] = ln, ln.Addr().String(), t.TempDir()
	}
	for id, ln := range listeners {
		start(id, ln)
	}
	t.Cleanup(func() {
		for _, c := range counters {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
	})
	if got := ask(t, counters[1], "POST", "/add?n=5"); got != "5" {
		t.Errorf("5 added: got %s", got)
	}
	if got := ask(t, counters[3], "GET", "/"); got != "5" {
		t.Errorf("member 3 shows %s, want 5", got)
	}
	// One is away for so long that the others have forgotten what it missed.
	if err := counters[2].close(); err != nil {
		t.Fatal(err)
	}
	for i := range 2*snapshotEach + 10 {
		if got, want := ask(t, counters[1], "POST", "/add?n=1"), strconv.Itoa(6+i); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	ln, err := net.Listen("tcp", members[2])
	if err != nil {
		t.Fatal(err)
	}
	start(2, ln)
	if got := ask(t, counters[2], "POST", "/add?n=-15"); got != "200" {
		t.Errorf("member 2 is back and shows %s, want 200", got)
	}
}
