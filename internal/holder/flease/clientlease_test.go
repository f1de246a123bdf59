package flease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// promptClient is a client over a connection whose requests are answered at once.
func promptClient(answer func(n *clientConn, r request)) *Client {
	n := promptConn(answer)
	c := n.client
	c.cfg.Socket, c.cfg.Dial = "path", nil
	c.dialing = make(chan struct{}, 1)
	c.conn, c.conns = n, []*clientConn{n}
	n.tmax = time.Minute
	return c
}

// asClient calls Acquire or TryAcquire.
func asClient(ctx context.Context, c *Client, cl tenure.Claim, try bool) (tenure.Lease, error) {
	if try {
		return c.TryAcquire(ctx, cl)
	}
	return c.Acquire(ctx, cl)
}

// TestHowLongAClientRepeatsClaims: Acquire makes its claim again while the peer is of no use.
// TryAcquire returns that at once, and waits some seconds at most for an answer.
func TestHowLongAClientRepeatsClaims(t *testing.T) {
	why := errors.New("the caller's reason")
	says := func(err error) event { return event{Event: "refused"}.fill(err) }
	admitted := func(until machine.Mono) event { return event{Event: "acquired", Token: 7, Until: until} }
	live := admitted(machine.Mono(time.Hour))
	for name, tt := range map[string]struct {
		try    bool
		ends   time.Duration // when the caller gives up; 0: never
		first  event         // the answer to the first claims; none if empty
		many   int           // how many first claims there are; the next is admitted
		claims int
		took   time.Duration
		is     []error // nil if it is held
		says   string
	}{
		"admitted":                           {true, 0, live, 1, 1, 0, nil, ""},
		"lost before anybody knew":           {true, 0, admitted(0), 3, 4, 0, nil, ""},
		"held, for one that tries":           {true, 0, says(tenure.HeldError{Name: "x", Holder: "web-3"}), 9, 1, 0, []error{tenure.HeldError{Name: "x", Holder: "web-3"}}, "is held by web-3"},
		"a bad claim":                        {false, 0, says(tenure.ErrClaim), 9, 1, 0, []error{tenure.ErrClaim}, ""},
		"silence, for one that tries":        {true, 0, says(tenure.ErrUnavailable), 9, 1, 0, []error{tenure.ErrUnavailable}, ""},
		"silence, for one that waits":        {false, 0, says(tenure.ErrUnavailable), 90, 91, 90 * 50 * time.Millisecond, nil, ""},
		"much to do, for one that tries":     {true, 0, says(ErrBusy), 9, 1, 0, []error{ErrBusy}, ""},
		"much to do, for one that waits":     {false, 0, says(ErrBusy), 90, 91, 90 * 50 * time.Millisecond, nil, ""},
		"no answer, for one that tries":      {true, 0, event{}, 9, 1, 2*clientPatience + 2*farewell, []error{tenure.ErrUnavailable, holder.ErrPatience}, "the peer at path"},
		"no answer, and the caller gives up": {false, time.Minute, event{}, 9, 1, time.Minute + 2*farewell, []error{tenure.ErrUnavailable, why}, `acquire "x"`},
		"silence, and the caller gives up":   {false, 110 * time.Millisecond, says(tenure.ErrUnavailable), 9, 3, 110 * time.Millisecond, []error{tenure.ErrUnavailable, why}, "the caller's reason: "},
		"no answer, and the caller tries":    {true, time.Second, event{}, 9, 1, time.Second + 2*farewell, []error{tenure.ErrUnavailable, why}, `acquire "x"`},
		"the caller has given up before":     {false, -1, live, 1, 0, 0, []error{tenure.ErrUnavailable, why}, `acquire "x"`},
		"the peer says that it is closed":    {false, 0, says(tenure.ErrClosed), 9, 1, 0, []error{tenure.ErrClosed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				claims := 0
				c := promptClient(func(n *clientConn, r request) {
					switch r.Op {
					case "acquire":
						claims++
						e := live
						if claims <= tt.many {
							e = tt.first
						}
						if e.ID = r.ID; e.Event != "" {
							n.answered(e)
						}
					case "release":
						n.answered(event{Event: "released", ID: r.ID})
					}
				})
				c.cfg.Clock.(interface{ Advance(time.Duration) }).Advance(time.Minute)
				ctx, giveUp := context.WithCancelCause(context.Background())
				defer giveUp(nil)
				switch {
				case tt.ends > 0:
					time.AfterFunc(tt.ends, func() { giveUp(why) })
				case tt.ends < 0:
					giveUp(why)
				}
				began := time.Now()
				lease, err := asClient(ctx, c, tenure.Claim{Name: "x", TTL: 10 * time.Second}, tt.try)
				if took := time.Since(began); took != tt.took || claims != tt.claims {
					t.Errorf("%s: after %v and %d claims %v; want %v and %d", name, took, claims, err, tt.took, tt.claims)
				}
				if tt.is == nil && (err != nil || lease.Check() != nil || lease.Token() != 7) {
					t.Errorf("%s: %+v, %v; want that it is held", name, lease, err)
				}
				for _, is := range tt.is {
					if !errors.Is(err, is) || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("%s: %v; want %v, and %q", name, err, is, tt.says)
					}
				}
				n := c.conn
				if ids, _ := n.wanted(); (len(ids) == 1) != (tt.is == nil) {
					t.Errorf("%s: the client names %v", name, ids)
				}
				closed := make(chan error, 1)
				go func() { closed <- c.Close() }()
				synctest.Wait()
				select {
				case err := <-closed:
					if err != nil || lease != nil && !errors.Is(lease.Err(), tenure.ErrReleased) {
						t.Errorf("%s: Close says %v", name, err)
					}
				default:
					t.Errorf("%s: the call has ended, and Close waits for it", name)
					c.calls.Leave()
					<-closed
				}
			})
		})
	}
}

// TestWhatAClientAsksFor: a request has all fields of its claim, with the lock delay rounded up to milliseconds.
// A claim without a TTL asks for the part of the peer's t_max that its lock delay leaves.
func TestWhatAClientAsksFor(t *testing.T) {
	for name, tt := range map[string]struct {
		claim tenure.Claim
		want  request
	}{
		"all":         {tenure.Claim{Name: "x", Holder: "h", Slots: 3, TTL: 2 * time.Second, LockDelay: time.Second}, request{Holder: "h", Slots: 3, TTLMS: 2000, LockDelayMS: 1000}},
		"rounded up":  {tenure.Claim{Name: "x", Holder: "h", Slots: 1, TTL: 2 * time.Second, LockDelay: time.Second + 1}, request{Holder: "h", Slots: 1, TTLMS: 2000, LockDelayMS: 1001}},
		"no TTL":      {tenure.Claim{Name: "x", Holder: "h", Slots: 1, LockDelay: 55 * time.Second}, request{Holder: "h", Slots: 1, TTLMS: 5000, LockDelayMS: 55_000}},
		"no room":     {tenure.Claim{Name: "x", Holder: "h", Slots: 1, LockDelay: time.Hour}, request{Holder: "h", Slots: 1, TTLMS: 0, LockDelayMS: 3_600_000}},
		"the default": {tenure.Claim{Name: "x", Holder: "h", Slots: 1}, request{Holder: "h", Slots: 1, TTLMS: tenure.DefaultTTL.Milliseconds()}},
	} {
		for _, try := range []bool{false, true} {
			var got request
			c := promptClient(func(n *clientConn, r request) {
				got = r
				n.answered(event{Event: "refused", ID: r.ID}.fill(tenure.ErrClaim))
			})
			now := machine.Mono(time.Minute)
			c.cfg.Clock.(interface{ Advance(time.Duration) }).Advance(time.Minute)
			if _, err := asClient(t.Context(), c, tt.claim, try); !errors.Is(err, tenure.ErrClaim) {
				t.Errorf("%s: %v", name, err)
			}
			want := tt.want
			want.Op, want.ID, want.Name, want.At, want.Try = "acquire", 1, "x", now, try
			if got.Tokens, got.IDs = nil, nil; !equalRequests(got, want) {
				t.Errorf("%s: asked for %+v, want %+v", name, got, want)
			}
		}
	}
}

func equalRequests(a, b request) bool {
	return a.Op == b.Op && a.ID == b.ID && a.At == b.At && a.Name == b.Name && a.Holder == b.Holder &&
		a.TTLMS == b.TTLMS && a.LockDelayMS == b.LockDelayMS && a.Slots == b.Slots && a.Try == b.Try
}

// A claim that was lost before its caller knew of it is made again, but not for a caller that has
// given up, though it says that it lost a lease of its own.
func TestALostClaimIsMadeAgain(t *testing.T) {
	calls := holder.NewCalls(t.Context(), nil)
	lost := fmt.Errorf("%w: it was revoked", tenure.ErrLost)
	ctx, giveUp := context.WithCancelCause(t.Context())
	in, err := calls.Call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Leave()
	if _, again := (clientEngine{}).Again(in, lost); !again {
		t.Error("a claim that was lost is not made again")
	}
	giveUp(lost)
	if _, again := (clientEngine{}).Again(in, lost); again {
		t.Error("a claim of a caller that has given up is made again")
	}
}
