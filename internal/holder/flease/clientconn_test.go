package flease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestGreetings: a client accepts a peer that speaks its version and reads its clock, and knows the
// peer's t_max.
func TestGreetings(t *testing.T) {
	now := machine.Mono(time.Hour)
	welcome := event{Event: "welcome", Version: socketVersion, At: now, TMaxMS: 60_000}
	with := func(f func(*event)) *event { e := welcome; f(&e); return &e }
	for name, tt := range map[string]struct {
		says *event // nil: it hangs up
		want string
	}{
		"of this moment":       {&welcome, ""},
		"of the moment before": {with(func(e *event) { e.At-- }), "it reads another clock"},
		"of the next":          {with(func(e *event) { e.At++ }), "it reads another clock"},
		"another version":      {with(func(e *event) { e.Version++ }), `it answers with "welcome", version 3`},
		"something else":       {with(func(e *event) { e.Event = "status" }), `it answers with "status", version 2`},
		"why it will not":      {with(func(e *event) { e.Event, e.Error = "error", "go away" }), "go away"},
		"nothing":              {nil, "it does not welcome us: EOF"},
	} {
		ours, theirs := net.Pipe()
		clk := new(clock.Fake)
		clk.Advance(now.Sub(clk.Now()))
		n := &clientConn{client: &Client{cfg: ClientConfig{Clock: clk}, clocks: holder.Clocks{Mono: clk}}, lines: newLines(ours, answerBytesMax)}
		go func() {
			peer, hello := newLines(theirs, lineBytesMax), request{}
			if err := peer.receive(&hello); err != nil || hello.Op != "hello" || hello.Version != socketVersion {
				t.Errorf("%s: the client begins with %+v, %v", name, hello, err)
			}
			if tt.says != nil {
				_ = peer.send(tt.says)
			}
			theirs.Close()
		}()
		err := n.greet()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("welcomed with %s: %v, want %q", name, err, tt.want)
		}
		if err == nil && n.tmax != time.Minute {
			t.Errorf("t_max is %v", n.tmax)
		}
		ours.Close()
	}
}

// TestWhyAConnectionEnded: the reason is told once, in words for people, and the connection is closed.
func TestWhyAConnectionEnded(t *testing.T) {
	for err, want := range map[error]string{
		io.EOF: "at path ended", net.ErrClosed: "at path ended", syscall.EPIPE: "at path ended", syscall.ECONNRESET: "at path ended",
		os.ErrDeadlineExceeded:   "at path ended: it did not read for 5s",
		errors.New("its reason"): "at path ended: its reason",
	} {
		n := promptConn(nil)
		n.client.cfg.Socket = "path"
		n.broken(fmt.Errorf("%w", err))
		n.broken(errors.New("and then another"))
		got := context.Cause(n.ctx)
		if !errors.Is(got, tenure.ErrUnavailable) || !strings.HasSuffix(got.Error(), want) {
			t.Errorf("%v: it is told as %v, want %q", err, got, want)
		}
		if *n.lines.conn.(prompt).closed == 0 {
			t.Errorf("%v: the connection is not closed", err)
		}
	}
}

// TestWhatAClientNames: a client names the claims that callers wait for and the leases that are held,
// four times in the shortest TTL of these, and nothing else.
func TestWhatAClientNames(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var said []request
		n := promptConn(func(_ *clientConn, r request) {
			if r.Op == "alive" {
				said = append(said, r)
			}
		})
		clk := n.client.cfg.Clock.(*clock.Fake)
		ended := make(chan struct{})
		go func() { defer close(ended); n.live() }()
		wait := func(d time.Duration, ids ...uint64) {
			t.Helper()
			synctest.Wait()
			clk.Advance(d)
			synctest.Wait()
			var want []request
			if len(ids) > 0 {
				want = []request{{Op: "alive", At: clk.Now(), IDs: ids}}
			}
			if got := said; !reflect.DeepEqual(got, want) {
				t.Errorf("after %v more it says %+v, want %+v", d, got, want)
			}
			said = nil
		}
		hold := func(id uint64, ttl time.Duration) *clientLease {
			l := &clientLease{Lease: holder.Make(&holder.Clocks{Mono: clk}, "x", "h", nil), conn: n, id: id, ttl: ttl}
			l.Begin(1, machine.Mono(24*time.Hour), 0)
			n.mu.Lock()
			n.leases[id] = l
			n.mu.Unlock()
			return l
		}
		wait(time.Hour)
		a, b := hold(1, 8*time.Second), hold(2, 40*time.Second)
		id, _, err := n.ask(request{Op: "acquire"}, &clientLease{ttl: 20 * time.Second})
		if err != nil || id != 1 {
			t.Fatal(id, err)
		}
		n.mu.Lock()
		n.asked[3] = n.asked[1]
		delete(n.asked, 1)
		n.mu.Unlock()
		wait(2*time.Second - 1)
		wait(1, 1, 2, 3)
		wait(2*time.Second, 1, 2, 3)
		n.leave(3)
		wait(2*time.Second, 1, 2)
		wait(2*time.Second - 1)
		a.End(errReleased) // the moment before it is named
		wait(1, 2)
		wait(10*time.Second - 1)
		wait(1, 2)
		if _, _, err := n.ask(request{Op: "status"}, nil); err != nil { // no alive names it
			t.Fatal(err)
		}
		wait(10*time.Second, 2)
		b.End(errReleased)
		wait(10 * time.Second)
		wait(time.Hour)
		n.end(nil)
		<-ended
	})
}

// readings is a clock that shows a later time at each look, and remembers them.
type readings struct {
	*clock.Fake
	seen []machine.Mono
}

func (r *readings) Now() machine.Mono {
	r.seen = append(r.seen, r.Fake.Now().Add(time.Duration(len(r.seen))))
	return r.seen[len(r.seen)-1]
}

// TestWhenALeaseIsNamed: the time under which a client names its leases is from before it looked at them. If it were
// from after that, the peer would count on a lease that had ended in between.
func TestWhenALeaseIsNamed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clk := &readings{Fake: new(clock.Fake)}
		named := 0
		n := promptConn(func(_ *clientConn, r request) {
			if r.Op != "alive" {
				return
			}
			named++
			if at := slices.Index(clk.seen, r.At); at < 0 || at == len(clk.seen)-1 {
				t.Errorf("a lease is named under %d, which the clock showed in look %d of %d; want that the lease was looked at after that", r.At, at+1, len(clk.seen))
			}
		})
		n.client.cfg.Clock = clk
		l := &clientLease{Lease: holder.Make(&holder.Clocks{Mono: clk}, "x", "h", nil), conn: n, id: 1, ttl: 8 * time.Second}
		l.Begin(1, machine.Mono(time.Hour), 0)
		n.leases[1] = l
		ended := make(chan struct{})
		go func() { defer close(ended); n.live() }()
		synctest.Wait()
		clk.Advance(3 * time.Second)
		synctest.Wait()
		if named != 1 {
			t.Errorf("a lease of eight seconds is named %d times within three, want once", named)
		}
		n.end(nil)
		<-ended
	})
}

// TestAnswersOfManyParts: the caller gets the parts of an answer as one, though other answers come between.
func TestAnswersOfManyParts(t *testing.T) {
	n := promptConn(func(*clientConn, request) {})
	id, answer, err := n.ask(request{Op: "list"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, otherAnswer, err := n.ask(request{Op: "list"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.answered(event{Event: "names", ID: id, Names: []string{"a", "b"}, More: true})
	n.answered(event{Event: "names", ID: other, Names: []string{"z"}})
	n.answered(event{Event: "names", ID: id, Names: []string{"c"}, More: true})
	if len(answer) > 0 {
		t.Errorf("a part is told as if it were all: %+v", <-answer)
	}
	n.answered(event{Event: "names", ID: id, Names: []string{"d"}})
	n.answered(event{Event: "names", ID: id, Names: []string{"late"}})
	for want, got := range map[string]<-chan event{"[a b c d]": answer, "[z]": otherAnswer} {
		select {
		case e := <-got:
			if fmt.Sprint(e.Names) != want {
				t.Errorf("the names are %v, want %v", e.Names, want)
			}
		default:
			t.Errorf("there is no answer, want %v", want)
		}
	}
	if len(n.asked) > 0 {
		t.Errorf("%d questions are remembered that were answered", len(n.asked))
	}
}

// TestHowLongAClientAsks: a look is repeated while the peer has too much to do, for some seconds. An Await
// lasts until its caller gives up, and then returns the caller's reason.
func TestHowLongAClientAsks(t *testing.T) {
	why := errors.New("the caller's reason")
	state := event{Event: "observed", State: &tenure.State{Name: "x", Waiting: 7}}
	busy, bad := event{Event: "observed"}.fill(ErrBusy), event{Event: "observed"}.fill(tenure.ErrClaim)
	for name, tt := range map[string]struct {
		await bool
		ends  time.Duration // when the caller gives up; 0: never
		first event         // the answer to the first requests; none if empty
		many  int
		took  time.Duration
		asks  int
		is    error // nil if it is shown
	}{
		"shown":                                   {false, 0, state, 1, 0, 1, nil},
		"too much to do for a while":              {false, 0, busy, 9, 9 * 50 * time.Millisecond, 10, nil},
		"too much to do, for a call that awaits":  {true, 0, busy, 900, 45 * time.Second, 901, nil},
		"a bad name":                              {false, 0, bad, 9, 0, 1, tenure.ErrClaim},
		"no answer":                               {false, 0, event{}, 9, 2 * clientPatience, 1, holder.ErrPatience},
		"no answer, and the caller gives up":      {false, time.Second, event{}, 9, time.Second, 1, why},
		"no answer, for a call that awaits":       {true, time.Hour, event{}, 9, time.Hour, 1, why},
		"too much to do, and the caller gives up": {true, 125 * time.Millisecond, busy, 900, 125 * time.Millisecond, 3, why},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var asked, canceled []uint64
				c := promptClient(func(n *clientConn, r request) {
					switch r.Op {
					case "observe", "await":
						asked = append(asked, r.ID)
						e := state
						if len(asked) <= tt.many {
							e = tt.first
						}
						if e.ID = r.ID; e.Event != "" {
							n.answered(e)
						}
					case "cancel":
						canceled = append(canceled, r.ID)
					}
				})
				ctx, giveUp := context.WithCancelCause(context.Background())
				defer giveUp(nil)
				if tt.ends > 0 {
					time.AfterFunc(tt.ends, func() { giveUp(why) })
				}
				look := func() (tenure.State, error) { return c.Observe(ctx, "x") }
				if tt.await {
					look = func() (tenure.State, error) { return c.Await(ctx, tenure.State{Name: "x"}) }
				}
				began := time.Now()
				s, err := look()
				if took := time.Since(began); took != tt.took || len(asked) != tt.asks || !errors.Is(err, tt.is) || s.Name != "x" || (err == nil) != (s.Waiting == 7) {
					t.Errorf("after %v and %d requests %+v, %v; want %v, %d and %v", took, len(asked), s, err, tt.took, tt.asks, tt.is)
				}
				var want []uint64
				if tt.await && tt.first.Event == "" {
					want = asked
				}
				if !slices.Equal(canceled, want) {
					t.Errorf("canceled are %v, want %v", canceled, want)
				}
				if len(c.conn.asked) > 0 {
					t.Errorf("%d questions are remembered when nobody waits any more", len(c.conn.asked))
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReleasesThatNobodyAnswers: a release waits for its answer until the lease has run out, or for a second.
func TestReleasesThatNobodyAnswers(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, 200 * time.Millisecond: time.Second} {
		bubble.Test(t, func(t *testing.T) {
			n := promptConn(func(*clientConn, request) {})
			l := &clientLease{Lease: holder.Make(&holder.Clocks{Mono: n.client.cfg.Clock}, "x", "h", nil), conn: n, id: 9}
			l.Begin(1, machine.Mono(left), 0)
			n.leases[9] = l
			began := time.Now()
			err := l.Release(context.Background())
			if took := time.Since(began); took != want || !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "the peer does not answer") {
				t.Errorf("%v are left, and after %v: %v; want %v, and that the peer does not answer", left, took, err, want)
			}
		})
	}
}

// TestReleasesThatAreGivenUp: a release waits no longer than its caller does, and says that nothing is
// confirmed.
func TestReleasesThatAreGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := promptConn(func(*clientConn, request) {})
		l := &clientLease{Lease: holder.Make(&holder.Clocks{Mono: n.client.cfg.Clock}, "x", "h", nil), conn: n, id: 9}
		l.Begin(1, machine.Mono(5*time.Second), 0)
		n.leases[9] = l
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := l.Release(ctx)
		if took := time.Since(began); took != 300*time.Millisecond || !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller has 300ms, and after %v a release ends with %v", took, err)
		}
		if !errors.Is(l.Err(), tenure.ErrReleased) {
			t.Errorf("after a release that was given up the lease says %v, want %v", l.Err(), tenure.ErrReleased)
		}
	})
}
