package flease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// countedConn records that it was closed.
type countedConn struct {
	net.Conn
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// TestEveryConnectionIsClosed: a client closes each connection that it cannot use or needs no more.
func TestEveryConnectionIsClosed(t *testing.T) {
	welcome := func() string {
		return fmt.Sprintf(`{"event":"welcome","version":%d,"at":%d,"t_max_ms":4000}`, socketVersion, clock.System.Now())
	}
	for name, tt := range map[string]struct {
		answer func() string
		during func(c *Client, cancel func()) // the peer's answer
		says   string                         // "" for a connection that can be used
	}{
		"welcome":             {welcome, nil, ""},
		"another version":     {func() string { return `{"event":"welcome","version":1}` }, nil, "run one version of the program"},
		"another clock":       {func() string { return fmt.Sprintf(`{"event":"welcome","version":%d,"at":1}`, socketVersion) }, nil, "another clock"},
		"not JSON":            {func() string { return "welcome" }, nil, "no JSON"},
		"refused":             {func() string { return `{"event":"error","error":"no room"}` }, nil, "no room"},
		"the client closes":   {welcome, func(c *Client, _ func()) { c.cancel() }, tenure.ErrClosed.Error()},
		"the caller has left": {nil, func(_ *Client, cancel func()) { cancel() }, "does not welcome us"},
		"the peer hangs up":   {func() string { return "" }, nil, "does not welcome us"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &Client{dialing: make(chan struct{}, 1), calls: holder.NewCalls(context.Background(), nil)}
			c.ctx, c.cancel = context.WithCancel(context.Background())
			ours, theirs := net.Pipe()
			conn := &countedConn{Conn: ours}
			c.cfg = ClientConfig{Clock: clock.System, Dial: func(context.Context, string) (net.Conn, error) { return conn, nil }}
			served := make(chan struct{})
			go func() {
				defer close(served)
				defer theirs.Close()
				in := newLines(theirs, lineBytesMax)
				var r request
				if in.receive(&r) != nil {
					return
				}
				if tt.during != nil {
					tt.during(c, cancel)
				}
				if tt.answer != nil {
					fmt.Fprintln(theirs, tt.answer())
				}
				if tt.answer == nil || tt.says == "" {
					_ = in.receive(&r) // until the client ends it
				}
			}()
			_, err := c.connect(ctx)
			switch {
			case tt.says == "" && (err != nil || conn.closed.Load()):
				t.Errorf("%v; closed: %v", err, conn.closed.Load())
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%v, want %q", err, tt.says)
			case tt.says != "" && !conn.closed.Load():
				t.Errorf("a connection of no use is left open: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if !conn.closed.Load() {
				t.Error("the client is closed, and a connection of its is left open")
			}
			conn.Close()
			<-served
		})
	}
}

// TestReleasedAndLostAtOnce: a release at the moment in which the peer finds the lease lost is
// answered with the loss, and waits for no other answer.
func TestReleasedAndLostAtOnce(t *testing.T) {
	var now clock.Fake
	p := barePeer(t, Config{Clock: &now})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	s := p.newSession(t.Context(), ours)
	defer s.leave()
	lease := heldClaim(p.Leaser(), tenure.Claim{TTL: time.Minute}, machine.Mono(time.Minute), machine.Wall(time.Hour))
	x := &sessionClaim{id: 5, nudge: make(chan struct{}, 1), freed: make(chan struct{})}
	s.claims[x.id] = x
	minded := make(chan error, 1)
	go func() { minded <- s.mind(x, lease) }()
	hear := newLines(theirs, answerBytesMax)
	for i, want := range []struct{ event, reason string }{{"acquired", ""}, {"released", "lost"}, {"lost", "lost"}} {
		if i == 0 { // while the first line waits to be read, the client releases it, and it ends
			var first [1]byte
			if _, err := theirs.Read(first[:]); err != nil {
				t.Fatal(err)
			}
			s.free(x.id)
			now.Advance(time.Minute)
			rest, err := hear.in.ReadString('\n')
			if err != nil || !strings.Contains(rest, want.event) {
				t.Fatalf("the peer says %q, %v", rest, err)
			}
			continue
		}
		if err := theirs.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var e event
		if err := hear.receive(&e); err != nil || e.Event != want.event || e.ID != x.id || e.Reason != want.reason {
			t.Fatalf("the peer says %+v, %v; want %+v", e, err, want)
		}
	}
	if err := <-minded; err != nil {
		t.Error(err)
	}
	if err := lease.Err(); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("the lease ended with %v", err)
	}
}

// TestAdmittedWhenTheConnectionHasEnded: a lease that comes when its client's connection has ended is given back at once.
// Its client will never hear of it.
func TestAdmittedWhenTheConnectionHasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &scripted{}
		p := scriptedPeer(t, m, time.Second)
		defer p.driver.Stop()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		s := p.newSession(p.ctx, ours)
		s.leave()
		s.over = true
		now := p.cfg.Clock.Now()
		lease := heldClaim(p.Leaser(), tenure.Claim{TTL: time.Minute}, now.Add(time.Minute), 1<<62)
		p.claims[lease.id] = lease
		x := &sessionClaim{id: 5, named: now, nudge: make(chan struct{}, 1), freed: make(chan struct{})}
		minded := make(chan error, 1)
		go func() { minded <- s.mind(x, lease) }()
		synctest.Wait()
		var released []uint64
		p.driver.Do(func() { released = slices.Clone(m.released) })
		if len(minded) == 0 || !slices.Equal(released, []uint64{lease.id}) {
			t.Errorf("a lease comes when the connection has ended, its session has ended: %v, and given back are %v; want lease %d at once", len(minded) > 0, released, lease.id)
			p.cfg.Clock.(*clock.Fake).Advance(time.Hour)
		}
		if err := <-minded; !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a lease that comes when the connection has ended is refused with %v, want %v", err, tenure.ErrUnavailable)
		}
	})
}
