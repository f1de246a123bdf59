package flease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestWhoGivesUpHearsWhoHolds: a caller that gives up is told the holder and its deadline, besides the caller's own
// reason. The machine is told that the caller has left.
func TestWhoGivesUpHearsWhoHolds(t *testing.T) {
	t0 := flease.Time(1000)
	for name, tt := range map[string]struct {
		waits any // the report about the holders
		want  *tenure.HeldError
	}{
		"somebody holds it": {flease.State{Holdings: []flease.Holding{{Holder: "web-3", Until: t0 + 500, Delay: 200, Slots: 1}, {Holder: "web-4", Until: t0, Slots: 1}}},
			&tenure.HeldError{Name: "x", Holder: "web-3", Until: time.Unix(0, int64((t0 + 300).Wall()))}},
		"nobody does":     {flease.State{Waiting: 2}, nil},
		"nobody can tell": {nil, nil},
	} {
		bubble.Test(t, func(t *testing.T) {
			m := &scripted{answer: func(_ int, id uint64) flease.Report {
				if s, ok := tt.waits.(flease.State); ok {
					return flease.Waits{ID: id, State: s}
				}
				return nil
			}}
			p := scriptedPeer(t, m, time.Second)
			defer p.driver.Stop()
			ctx, giveUp := context.WithCancelCause(context.Background())
			gaveUp := make(chan error, 1)
			go func() {
				_, err := p.Leaser().Acquire(ctx, tenure.Claim{Name: "x", Holder: "web-1", TTL: 10 * time.Second, LockDelay: 5 * time.Second, Slots: 7})
				gaveUp <- err
			}()
			synctest.Wait()
			mine := errors.New("the caller's reason")
			giveUp(mine)
			err := <-gaveUp
			var held tenure.HeldError
			if !errors.Is(err, mine) || errors.As(err, &held) != (tt.want != nil) || tt.want != nil && (held != *tt.want || !strings.Contains(err.Error(), "gave up waiting")) {
				t.Errorf("%s: a caller that gives up hears %v (%+v), want its own reason and %+v", name, err, held, tt.want)
			}
			var asked []flease.Acquire
			var released []uint64
			p.driver.Do(func() { asked, released = m.claims, m.released })
			if want := (flease.Acquire{ID: 1, Name: "x", Holder: "web-1", TTL: 10 * time.Second, LockDelay: 5 * time.Second, Slots: 7}); len(asked) != 1 || asked[0] != want || len(released) != 1 || released[0] != 1 {
				t.Errorf("%s: the machine is asked %+v, want %+v once, and told that %v are given up", name, asked, want, released)
			}
			if len(p.claims) != 0 {
				t.Errorf("%s: %d claims are remembered", name, len(p.claims))
			}
		})
	}
}

// TestWhatIsAskedOfTheMachine: a claim reaches the machine as it was made.
func TestWhatIsAskedOfTheMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		claim tenure.Claim
		try   bool
		want  flease.Acquire
	}{
		"a claim":   {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second, LockDelay: 3 * time.Second, Slots: 2}, false, flease.Acquire{TTL: 10 * time.Second, LockDelay: 3 * time.Second, Slots: 2}},
		"a try":     {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second}, true, flease.Acquire{TTL: 10 * time.Second, Slots: 1, Try: true}},
		"shared":    {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second, Slots: tenure.Shared}, false, flease.Acquire{TTL: 10 * time.Second, Slots: flease.Shared}},
		"fractions": {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second, LockDelay: time.Millisecond + 1}, false, flease.Acquire{TTL: 10 * time.Second, LockDelay: 2 * time.Millisecond, Slots: 1}},
		"no TTL":    {tenure.Claim{Name: "x", Holder: "h", LockDelay: 50 * time.Second}, false, flease.Acquire{TTL: 10 * time.Second, LockDelay: 50 * time.Second, Slots: 1}},
	} {
		bubble.Test(t, func(t *testing.T) {
			m := &scripted{}
			p := scriptedPeer(t, m, time.Second)
			m.answer = func(_ int, id uint64) flease.Report {
				return flease.Acquired{ID: id, Token: 7, Deadline: p.cfg.Clock.Now().Add(time.Minute), Until: 1 << 62}
			}
			defer p.driver.Stop()
			acquire := p.Leaser().Acquire
			if tt.try {
				acquire = p.Leaser().TryAcquire
			}
			lease, err := acquire(context.Background(), tt.claim)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tt.want.ID, tt.want.Name, tt.want.Holder = 1, "x", "h"
			if len(m.claims) != 1 || m.claims[0] != tt.want {
				t.Errorf("%s: the machine is asked %+v, want %+v", name, m.claims, tt.want)
			}
			x := lease.(*claim)
			if x.Name() != "x" || x.Holder() != "h" || x.ttl != tt.want.TTL || x.delay != tt.want.LockDelay || x.Token() != 7 {
				t.Errorf("%s: it is held as %+v", name, x)
			}
		})
	}
}

// welcoming is a connection to a peer. It calls then right after the peer's welcome.
type welcoming struct {
	net.Conn
	welcome string
	then    func()
}

func (w *welcoming) Write(b []byte) (int, error)      { return len(b), nil }
func (w *welcoming) SetWriteDeadline(time.Time) error { return nil }
func (w *welcoming) SetDeadline(time.Time) error      { return nil }

func (w *welcoming) Read(b []byte) (int, error) {
	n := copy(b, w.welcome)
	w.welcome = w.welcome[n:]
	w.then()
	return n, nil
}

// TestWelcomedTooLate: a connection whose caller gives up at the moment of the welcome is closed, because its
// deadline has been set. The caller gets its own reason.
func TestWelcomedTooLate(t *testing.T) {
	mine := errors.New("the caller's reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := &countedConn{Conn: &welcoming{ours, fmt.Sprintf(`{"event":"welcome","version":%d,"at":%d,"t_max_ms":4000}`+"\n", socketVersion, time.Hour), func() { cancel(mine) }}}
	now := new(clock.Fake)
	now.Advance(time.Hour)
	c := &Client{dialing: make(chan struct{}, 1), calls: holder.NewCalls(context.Background(), nil), cfg: ClientConfig{Clock: now, Dial: func(context.Context, string) (net.Conn, error) { return conn, nil }}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if n, err := c.connect(ctx); n != nil || !errors.Is(err, mine) || !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("a client that left when it was welcomed gets %v, %v", n, err)
	}
	if !conn.closed.Load() || c.Connections() != 0 {
		t.Error("a connection of no use is left open")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhyACallHasNoAnswer: a call that ends while it waits to connect again returns why the connection ended.
func TestWhyACallHasNoAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := new(clock.Fake)
		ours, theirs := net.Pipe()
		peer := newLines(theirs, answerBytesMax)
		dialed := 0
		c := &Client{dialing: make(chan struct{}, 1), calls: holder.NewCalls(context.Background(), nil), cfg: ClientConfig{Socket: "path", Clock: now, Dial: func(context.Context, string) (net.Conn, error) {
			dialed++
			return ours, nil
		}}}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		go func() {
			var r request
			_ = peer.receive(&r)
			_ = peer.send(event{Event: "welcome", Version: socketVersion, At: now.Now(), TMaxMS: 60_000})
			_ = peer.receive(&r)
			theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := c.Observe(ctx, "x")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "the connection to the peer at path ended") || dialed != 1 {
			t.Errorf("the connection has ended, and a call that is over before there is another says %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatAClientAsks: a client's claim reaches its peer as it was made, with the time of the request. A release
// names the lease.
func TestWhatAClientAsks(t *testing.T) {
	c, peer := fakePeer(t)
	for name, tt := range map[string]struct {
		claim tenure.Claim
		try   bool
		want  request
	}{
		"a claim":   {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second, LockDelay: 3 * time.Second, Slots: 2}, false, request{Holder: "h", TTLMS: 10_000, LockDelayMS: 3000, Slots: 2}},
		"a try":     {tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second}, true, request{Holder: "h", TTLMS: 10_000, Slots: 1, Try: true}},
		"fractions": {tenure.Claim{Name: "x", Holder: "i", TTL: 10 * time.Second, LockDelay: time.Millisecond + 1}, false, request{Holder: "i", TTLMS: 10_000, LockDelayMS: 2, Slots: 1}},
		"no TTL":    {tenure.Claim{Name: "x", Holder: "h", LockDelay: 50 * time.Second}, false, request{Holder: "h", TTLMS: 10_000, LockDelayMS: 50_000, Slots: 1}},
	} {
		before := clock.System.Now()
		got := make(chan tenure.Lease, 1)
		go func() {
			acquire := c.Acquire
			if tt.try {
				acquire = c.TryAcquire
			}
			lease, err := acquire(context.Background(), tt.claim)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got <- lease
		}()
		r := peer.next(t, "acquire")
		if r.At < before || r.At > clock.System.Now() {
			t.Errorf("%s: it was made at %v, between %v and %v", name, r.At, before, clock.System.Now())
		}
		id := r.ID
		tt.want.Op, tt.want.Name, tt.want.ID, tt.want.At = "acquire", "x", id, r.At
		if fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s: the peer is asked %+v, want %+v", name, r, tt.want)
		}
		if err := peer.send(event{Event: "acquired", ID: id, Token: 7, TTLMS: r.TTLMS, Until: clock.System.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		lease := <-got
		if lease.Holder() != tt.want.Holder || lease.Token() != 7 {
			t.Errorf("%s: it is held as %+v", name, lease)
		}
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		if r = peer.next(t, "release"); r.ID != id {
			t.Errorf("%s: claim %d is held, and %d released", name, id, r.ID)
		}
		if err := peer.send(event{Event: "released", ID: id}); err != nil {
			t.Fatal(err)
		}
		if err := <-released; err != nil {
			t.Errorf("%s: released: %v", name, err)
		}
	}
	peer.conn.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestPlacesTellListsApart: lists of one epoch and with the same indices are one view only if the addresses are the
// same. The members before do not matter.
func TestPlacesTellListsApart(t *testing.T) {
	list := func(epoch uint64, b string, was ...string) flease.View {
		m := Members{Epoch: epoch, Addrs: map[machine.NodeID]string{1: "a:1", 7: b}}
		if len(was) > 0 {
			m.Was = map[machine.NodeID]string{1: "a:1", 7: was[0]}
		}
		return m.view(2)
	}
	base := list(2, "b:1")
	if base.Epoch != 2 || base.Replicas != 2 || fmt.Sprint(base.Members) != "[1 7]" || base.Places == 0 {
		t.Errorf("the view is %+v", base)
	}
	if base.Places == list(2, "c:1").Places {
		t.Error("a member is at another address, and it is the same view")
	}
	if base.Places != list(2, "b:1", "c:1").Places {
		t.Error("others were before, and it is another view")
	}
}
