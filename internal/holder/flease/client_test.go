package flease_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// TestConnectionEnds: a client whose connection ends keeps its lease until the deadline that it
// knows, and no other claim has it before. A client that comes back can acquire again.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	p := newProxy(t, c.socket(0).path)
	l, err := engine.Dial(t.Context(), p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := c.peers[1].Leaser()
	defer other.Close()
	claim := tenure.Claim{Name: "x", TTL: time.Second}
	lease, err := l.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	p.sever()
	next, err := other.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("the next holds, and Check of the one before returns %v", err)
	}
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after %d", next.Token(), lease.Token())
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if lease, err = l.Acquire(t.Context(), claim); err != nil {
		t.Fatalf("over a new connection: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseAfterReconnect: Close ends a lease whose connection has ended, and does not wait until it
// would have run out.
func TestCloseAfterReconnect(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.TMax = time.Hour
	c := newCluster(t, 1, cfg)
	c.ready()
	p := newProxy(t, c.socket(0).path)
	l, err := engine.Dial(t.Context(), p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // the peer keeps the lease for its client until it runs out, and must not
		c.peers[0].Close()
	}()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: 50 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p.sever()
	if _, err := l.Observe(t.Context(), "y"); err != nil { // over a new connection
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		l.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close waits for a lease to run out")
	}
	if err := lease.Check(); !errors.Is(err, tenure.ErrReleased) {
		t.Errorf("after Close: %v", err)
	}
}

// TestSilentClient: a client that is connected and does not say that it is alive, like a stopped
// process, loses its lease though the peer could renew it.
func TestSilentClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	conn := talk(t, c.socket(0).path)
	conn.say(`{"op":"hello","version":2}`)
	now := conn.hear("welcome").At
	conn.say(fmt.Sprintf(`{"op":"acquire","id":1,"at":%d,"name":"x","ttl_ms":1000,"slots":1}`, now))
	got := conn.hear("acquired")
	if got.Until > now+1e9 || got.Token == "" {
		t.Errorf("acquired %+v at %d", got, now)
	}
	if lost := conn.hear("lost"); !strings.Contains(lost.Error, "did not say in time that it holds it") {
		t.Errorf("lost: %+v", lost)
	}
	l := c.peers[1].Leaser()
	defer l.Close()
	if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second}); err != nil {
		t.Error(err)
	}
}

// TestBadRequests: a bad request ends its connection, with a reason, and nothing else.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, brief)
	c.ready()
	s := c.socket(0)
	for say, want := range map[string]string{
		`{"op":"acquire"}`: "the first line must be",
		`{"op":"hello"}`:   "the first line must be",
		`lock x`:           "no JSON",
		"{\"op\":\"hello\",\"version\":2}\n{\"op\":\"steal\"}":                                 "no request is called \"steal\"",
		"{\"op\":\"hello\",\"version\":2}\n{\"op\":\"alive\",\"at\":9000000000000000000}":      "another clock",
		"{\"op\":\"hello\",\"version\":2}\n{\"name\":\"" + strings.Repeat("x", 20<<10) + "\"}": "more than 16384 bytes",
	} {
		conn := talk(t, s.path)
		conn.say(say)
		if e := conn.hear("error"); !strings.Contains(e.Error, want) {
			t.Errorf("%.60s: %q, want %q", say, e.Error, want)
		}
	}
	l, err := engine.Dial(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Hour}); !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), "more than t_max") {
		t.Errorf("an hour: %v", err)
	}
	_, err = l.TryAcquire(t.Context(), tenure.Claim{Name: "x", LockDelay: time.Hour})
	if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), "more than t_max") || strings.Contains(err.Error(), "negative") {
		t.Errorf("a lock delay of an hour: %v", err)
	}
	if st, err := l.Status(t.Context()); err != nil || !st.Serving || st.Self != 1 || len(st.Peers) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := engine.ListenSocket(s.path, 0o600); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second peer at one socket: %v", err)
	}
	if _, err := engine.Dial(t.Context(), s.path+"x"); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "tenure peer --listen") {
		t.Errorf("no peer: %v", err)
	}
}

// TestClientOfACutPeer: a live client of a peer that cannot renew holds no longer than the peer.
func TestClientOfACutPeer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	conn := talk(t, c.socket(0).path)
	conn.say(`{"op":"hello","version":2}`)
	now := conn.hear("welcome").At
	conn.say(fmt.Sprintf(`{"op":"acquire","id":1,"at":%d,"name":"x","ttl_ms":2000,"slots":1}`, now))
	last := conn.hear("acquired").Until
	c.taps[0].set(true, 0)
	told := make(chan int64)
	go func() { // until the claim is over
		defer close(told)
		for conn.in.Scan() {
			var e heard
			if json.Unmarshal(conn.in.Bytes(), &e) != nil || e.Event == "lost" {
				return
			}
			told <- e.Until
		}
	}()
	alive := time.NewTicker(20 * time.Millisecond)
	defer alive.Stop()
	for over := false; !over; {
		select {
		case until, more := <-told:
			last, over = max(last, until), !more
		case <-alive.C:
			conn.say(fmt.Sprintf(`{"op":"alive","at":%d}`, clock.Now()))
		}
	}
	// The peer reports the loss when its own lease is over. The client may believe no longer.
	if at := int64(clock.Now()); last > at {
		t.Errorf("the client may believe for another %v", time.Duration(last-at))
	}
}

// TestReleaseOfWhatIsLost: a release of a lease that was lost a moment ago is answered at once, though
// the peer waits for the lock delay before it frees the lease.
func TestReleaseOfWhatIsLost(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.TMax = time.Hour
	c := newCluster(t, 1, cfg)
	c.ready()
	conn := talk(t, c.socket(0).path)
	defer c.peers[0].Close() // Close does not wait for the lock delay
	conn.say(`{"op":"hello","version":2}`)
	now := conn.hear("welcome").At
	conn.say(fmt.Sprintf(`{"op":"acquire","id":1,"at":%d,"name":"x","ttl_ms":1000,"lock_delay_ms":3000000,"slots":1}`, now))
	conn.hear("acquired")
	conn.hear("lost") // no alive names it
	conn.say(`{"op":"release","id":1}`)
	if e := conn.hear("released"); e.Reason != "lost" {
		t.Errorf("released, for the reason %q: want to hear that it was lost", e.Reason)
	}
}

// TestOtherClock: a client that reads another clock than the peer is refused, because it cannot use
// the peer's deadlines.
func TestOtherClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		path := filepath.Join(shortDir(t), "peer.sock")
		l, err := engine.ListenSocket(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if bufio.NewScanner(conn).Scan() {
					fmt.Fprintf(conn, "{\"event\":\"welcome\",\"version\":2,\"at\":%d,\"t_max_ms\":4000}\n", clock.Now().Add(by))
				}
			}
		}()
		if c, err := engine.Dial(t.Context(), path); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "another clock") {
			if err == nil {
				c.Close()
			}
			t.Errorf("a peer whose clock is off by %v: %v", by, err)
		}
	}
}

// shortDir is a directory whose paths are short enough for sockets.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "flease")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestTooManyLooks: a client that asks faster than the peer can look is refused, and costs no more.
func TestTooManyLooks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	c.taps[0].set(true, 0) // so that looks take their time
	conn := talk(t, c.socket(0).path)
	conn.say(`{"op":"hello","version":2}`)
	conn.hear("welcome")
	go func() {
		for id := 1; ; id++ {
			if _, err := fmt.Fprintf(conn.conn, "{\"op\":\"observe\",\"id\":%d,\"name\":\"x\"}\n", id); err != nil {
				return // it was enough
			}
		}
	}()
	for e := conn.hear("observed"); e.Reason != "busy"; e = conn.hear("observed") {
		if e.Error != "" && e.Reason != "unavailable" {
			t.Fatalf("%+v", e)
		}
	}
}

// talker speaks to a socket by hand.
type talker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func talk(t *testing.T, path string) *talker {
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &talker{t, c, bufio.NewScanner(c)}
}

func (k *talker) say(line string) {
	if _, err := fmt.Fprintln(k.conn, line); err != nil {
		k.t.Fatal(err)
	}
}

// heard is the part of an event that tests look at.
type heard struct {
	Event, Token, Error, Reason string

	ID    uint64
	At    int64
	Until int64 `json:"deadline"`
}

// hear waits for an event of the kind.
func (k *talker) hear(kind string) (e heard) {
	k.t.Helper()
	for k.in.Scan() {
		e = heard{}
		if err := json.Unmarshal(k.in.Bytes(), &e); err != nil {
			k.t.Fatal(err)
		}
		if e.Event == kind {
			return e
		}
	}
	k.t.Fatalf("the connection ended without %q: %v", kind, k.in.Err())
	return e
}

// TestConnectionsThatAreGone: a client forgets an ended connection when the leases of the connection
// have ended, too, and not before.
func TestConnectionsThatAreGone(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		for range 5 {
			l.net.Reset("c", "h1")
			time.Sleep(time.Second)
			if _, err := c.Observe(context.Background(), "x"); err != nil {
				t.Error(err)
			}
		}
		if n := c.Connections(); n != 1 {
			t.Errorf("%d connections are remembered, of which one lives and none has leases left", n)
		}
	})
}
