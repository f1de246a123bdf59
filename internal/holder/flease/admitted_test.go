package flease

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// prompt is a connection to a peer that answers a request before it is sent.
type prompt struct {
	net.Conn
	answer func(request)
	closed *int
}

func (p prompt) Close() error { *p.closed++; return nil }

func (p prompt) SetWriteDeadline(time.Time) error { return nil }

func (p prompt) Write(b []byte) (int, error) {
	var r request
	if err := json.Unmarshal(b, &r); err != nil {
		return 0, err
	}
	p.answer(r)
	return len(b), nil
}

// promptConn is a connection of a client whose requests are answered at once.
func promptConn(answer func(n *clientConn, r request)) *clientConn {
	c := &Client{cfg: ClientConfig{Clock: new(clock.Fake)}}
	c.clocks.Mono, c.calls = c.cfg.Clock, holder.NewCalls(context.Background(), nil)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	n := &clientConn{client: c, asked: map[uint64]*question{}, leases: map[uint64]*clientLease{}, more: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancelCause(context.Background())
	n.lines = newLines(prompt{answer: func(r request) { answer(n, r) }, closed: new(int)}, answerBytesMax)
	return n
}

// TestAdmittedAsItsCallerLeaves: a claim that was admitted before its caller left is given back.
// Otherwise it would have no holder for as long as the client lives.
func TestAdmittedAsItsCallerLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		answer event // without its id
		want   error // besides the caller's reason
	}{
		"admitted": {event{Event: "acquired", Token: 7, Until: machine.Mono(time.Hour)}, nil},
		"refused":  {event{Event: "refused"}.fill(tenure.ErrClaim), tenure.ErrClaim},
	} {
		bubble.Test(t, func(t *testing.T) {
			var released []uint64
			n := promptConn(func(n *clientConn, r request) {
				switch r.Op {
				case "acquire":
					e := tt.answer
					e.ID = r.ID
					n.answered(e)
				case "release":
					released = append(released, r.ID)
					n.answered(event{Event: "released", ID: r.ID})
				}
			})
			why := errors.New("the caller's reason")
			ctx, leave := context.WithCancelCause(context.Background())
			leave(why)
			left := 0
			for range 50 { // chance decides which of the two is seen
				lease, err := n.acquire(ctx, request{Op: "acquire", Name: "x", TTLMS: 1000})
				synctest.Wait()
				if err == nil {
					err = lease.Release(context.Background())
					if tt.want != nil || err != nil {
						t.Fatalf("%s: held, and released with %v", name, err)
					}
				} else if errors.Is(err, why) {
					left++
				}
				if err != nil && tt.want != nil && !errors.Is(err, tt.want) {
					t.Fatalf("%s: %v, want %v, too", name, err, tt.want)
				}
				if id := n.lastID; tt.want == nil && (len(released) == 0 || released[len(released)-1] != id) {
					t.Fatalf("%s: claim %d has no holder, and is not given back", name, id)
				}
				if ids, _ := n.wanted(); len(ids) > 0 {
					t.Fatalf("%s: the client goes on naming %v", name, ids)
				}
			}
			if left == 0 || left == 50 {
				t.Errorf("%s: of 50 callers that gave up %d heard their own reason", name, left)
			}
		})
	}
}
