package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
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

// trio is three members on the loopback.
type trio struct {
	t        *testing.T
	members  map[broadcast.MemberID]string
	dirs     map[broadcast.MemberID]string
	counters map[broadcast.MemberID]*counter
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	g := &trio{t: t, members: map[broadcast.MemberID]string{}, dirs: map[broadcast.MemberID]string{}, counters: map[broadcast.MemberID]*counter{}}
	listeners := map[broadcast.MemberID]net.Listener{}
	for id := broadcast.MemberID(1); id <= 3; id++ {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id], g.members[id], g.dirs[id] = ln, ln.Addr().String(), t.TempDir()
	}
	for id, ln := range listeners {
		c, err := newCounter(g.config(id, ln))
		if err != nil {
			t.Fatal(err)
		}
		g.counters[id] = c
	}
	t.Cleanup(func() {
		for _, c := range g.counters {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, c := range g.counters { // a group begins when all of its founders have met
		ask(t, c, "GET", "/")
	}
	return g
}

func (g *trio) config(id broadcast.MemberID, ln net.Listener) broadcast.Config {
	g.t.Helper()
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", g.members[id]); err != nil {
			g.t.Fatal(err)
		}
	}
	return broadcast.Config{
		ID: id, Group: 1, Members: g.members, Listener: ln, DataDir: g.dirs[id], SuspicionTimeout: 500 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// miss has one be away for so long that the others have forgotten what it missed.
func (g *trio) miss(id broadcast.MemberID) {
	g.t.Helper()
	if err := g.counters[id].close(); err != nil {
		g.t.Fatal(err)
	}
	delete(g.counters, id)
	for range 2*snapshotEach + 10 {
		ask(g.t, g.counters[id%3+1], "POST", "/add?n=1")
	}
}

func TestCounter(t *testing.T) {
	g := newTrio(t)
	if got := ask(t, g.counters[1], "POST", "/add?n=5"); got != "5" {
		t.Errorf("5 added: got %s", got)
	}
	if got := ask(t, g.counters[3], "GET", "/"); got != "5" {
		t.Errorf("member 3 shows %s, want 5", got)
	}
	g.miss(2)
	c, err := newCounter(g.config(2, nil))
	if err != nil {
		t.Fatal(err)
	}
	g.counters[2] = c
	if got := ask(t, c, "POST", "/add?n=-15"); got != "200" {
		t.Errorf("member 2 is back and shows %s, want 200", got)
	}
}

// gate is a log that blocks the writer of a given text until the gate is opened.
type gate struct {
	slog.Handler
	text   string
	closed chan struct{}
}

func (h gate) Enabled(context.Context, slog.Level) bool { return true }

func (h gate) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		<-h.closed
	}
	return nil
}

// A member that is given the others' state in place of the messages that it waits for
// shows that, and not what it had before.
func TestReadOfOneThatIsBehind(t *testing.T) {
	g := newTrio(t)
	g.miss(2)
	cfg := g.config(2, nil)
	asks := make(chan struct{})
	cfg.Logger = slog.New(gate{slog.DiscardHandler, "asks for the messages that it lacks", asks})
	node, err := broadcast.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := over(node)
	g.counters[2] = c
	barrier := g.counters[3].node.Position() + 1
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	w := httptest.NewRecorder()
	var reading sync.WaitGroup
	reading.Go(func() { c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil)) })
	// The read's barrier is ordered before member 2 is given anything.
	for g.counters[1].node.Position() < barrier || g.counters[3].node.Position() < barrier {
		time.Sleep(time.Millisecond)
	}
	close(asks)
	for node.Position() < barrier {
		time.Sleep(time.Millisecond)
	}
	// Its application is slow, so that there is nothing to show yet.
	time.Sleep(200 * time.Millisecond)
	enough()
	reading.Wait()
	if w.Code == http.StatusOK {
		t.Errorf("member 2 has applied nothing and shows %s", w.Body)
	}
	c.done.Go(c.apply)
	if got, want := ask(t, c, "GET", "/"), strconv.Itoa(2*snapshotEach+10); got != want {
		t.Errorf("member 2 is back and shows %s, want %s", got, want)
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		id                 broadcast.MemberID
		members, dir, want string
	}{
		{0, "", "", "-members"},
		{1, "localhost:1", "x", "-members"},
		{1, "1=localhost:1,1=localhost:2", "x", "-members"},
		{1, "1=localhost", "x", "-members"},
		{2, "1=localhost:1", "x", "-id 2"},
		{1, "1=localhost:1", "", "-dir"},
		{1, "1=localhost:1,2=localhost:2", "x", ""},
	} {
		switch _, err := config(tt.id, tt.members, tt.dir); {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", tt, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(err.Error(), "for example: counter -id 1")):
			t.Errorf("%+v: got %v", tt, err)
		}
	}
}
