package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// kinds are what callers compare an error with.
var kinds = []struct {
	name string
	err  error
}{
	{"lost", tenure.ErrLost}, {"released", tenure.ErrReleased}, {"closed", tenure.ErrClosed}, {"unavailable", tenure.ErrUnavailable},
	{"claim", tenure.ErrClaim}, {"short TTL", tenure.ErrTTLTooShort}, {"canceled", context.Canceled}, {"deadline", context.DeadlineExceeded},
	{"cause", errCause}, {"patience", holder.ErrPatience},
}

var errCause = errors.New("the caller's cause")

// told is an error with all that callers can learn from it.
func told(err error) string {
	if err == nil {
		return "no error"
	}
	var is []string
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			is = append(is, k.name)
		}
	}
	if held := (tenure.HeldError{}); errors.As(err, &held) {
		is = append(is, fmt.Sprintf("held by %s for %s", held.Holder, rough(time.Until(held.Until))))
	}
	text := err.Error()
	if at := strings.Index(text, "until 2000-"); at >= 0 { // a bubble's time
		text = text[:at] + "until TIME" + text[at+len("until 2000-01-01T00:00:00Z"):]
	}
	return fmt.Sprintf("error [%s] (%s)", text, strings.Join(is, ", "))
}

// shown is all that a lease shows.
func shown(l tenure.Lease) string {
	return fmt.Sprintf("%q of %s, token %d, for %s, check %s, err %s, context %s", l.Name(), l.Holder(), l.Token(), rough(time.Until(l.Deadline())), told(l.Check()), told(l.Err()), told(context.Cause(l.Context())))
}

func result(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case tenure.Lease:
		return shown(v)
	case tenure.State:
		text := fmt.Sprintf("%q, %d waiting", v.Name, v.Waiting)
		for _, h := range v.Holders {
			text += fmt.Sprintf(", %s with token %d of %d slots for %s", h.Holder, h.Token, h.Slots, rough(time.Until(h.Until)))
		}
		return text
	}
	return fmt.Sprintf("%q", v)
}

// call calls the Leaser, and notes what it returns and how many leases it remembers.
func (s *stage) call(name string, f func() (any, error)) any {
	s.note("= %s", name)
	v, err := f()
	time.Sleep(3 * time.Millisecond) // what it has begun is begun
	if err != nil {
		s.note("> %s: %s, %s; %d remembered", name, result(noLease(v)), told(err), s.l.Registered())
		return nil
	}
	s.note("> %s: %s; %d remembered", name, result(v), s.l.Registered())
	return v
}

// noLease is the result beside an error: nothing for a lease that is nil.
func noLease(v any) any {
	if l, ok := v.(tenure.Lease); ok && l == nil {
		return nil
	}
	return v
}

// lone makes an interface that is nil of a lease that is nil.
func lone(l tenure.Lease, err error) (any, error) {
	if l == nil {
		return nil, err
	}
	return l, err
}

func (s *stage) acquire(ctx context.Context, c tenure.Claim) tenure.Lease {
	v := s.call("Acquire", func() (any, error) { return lone(s.l.Acquire(ctx, c)) })
	l, _ := v.(tenure.Lease)
	return l
}

func (s *stage) try(ctx context.Context, c tenure.Claim) tenure.Lease {
	v := s.call("TryAcquire", func() (any, error) { return lone(s.l.TryAcquire(ctx, c)) })
	l, _ := v.(tenure.Lease)
	return l
}

func (s *stage) release(ctx context.Context, l tenure.Lease) {
	s.call("Release", func() (any, error) { return nil, l.Release(ctx) })
}

func (s *stage) show(l tenure.Lease) { s.note("# %s; %d remembered", shown(l), s.l.Registered()) }

func (s *stage) close() { s.call("Close", func() (any, error) { return nil, s.l.Close() }) }

// closes closes the Leaser later.
func (s *stage) closes(after time.Duration) {
	s.closing.Go(func() {
		time.Sleep(after)
		s.close()
	})
}

// bounded is a context that ends by a cause of the caller's.
func bounded(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errCause)
	t.Cleanup(cancel)
	return ctx
}

// of is a plain claim, and mine its record.
var (
	of   = tenure.Claim{Name: "n", Holder: "me", TTL: 18 * time.Second}
	mine = `{"tenure":1,"holder":"other","slots":1}`
	two  = `{"tenure":1,"holder":"two","slots":2}`
)

func claimOf(f func(*tenure.Claim)) tenure.Claim {
	c := of
	f(&c)
	return c
}

// operations are all that can be asked of a Leaser, beside claims. Each begins with a lease that is held, or with nil.
var operations = []struct {
	name string
	held bool
	do   func(*stage, context.Context, tenure.Lease) (any, error)
}{
	{"Observe", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) { return s.l.Observe(ctx, "n") }},
	{"Await", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) {
		return s.l.Await(ctx, tenure.State{Name: "n"})
	}},
	{"List", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) { return s.l.List(ctx, "n") }},
	{"Record", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) { return s.l.Record(ctx, "n") }},
	{"Break", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) {
		return nil, s.l.Break(ctx, "n", []tenure.Holding{{Token: 2}, {Token: 4}})
	}},
	{"Acquire", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) { return lone(s.l.Acquire(ctx, of)) }},
	{"TryAcquire", false, func(s *stage, ctx context.Context, _ tenure.Lease) (any, error) {
		return lone(s.l.TryAcquire(ctx, of))
	}},
	{"SetRecord", true, func(s *stage, ctx context.Context, l tenure.Lease) (any, error) {
		return nil, s.l.SetRecord(ctx, l, []byte("r"))
	}},
	{"Release", true, func(s *stage, ctx context.Context, l tenure.Lease) (any, error) { return nil, l.Release(ctx) }},
}

// methods are those of the server.
var methods = []string{"Range", "Txn", "LeaseGrant", "LeaseRevoke", "LeaseTimeToLive", "Watch"}

type scenario struct {
	name string
	user string
	play func(*testing.T, *stage)
}

func scenarios() []scenario {
	all := tenures()
	for _, op := range operations {
		for _, when := range []struct {
			name string
			set  func(*stage) context.Context
		}{
			{"closed", func(s *stage) context.Context { s.close(); return s.calm }},
			{"its caller has left", func(s *stage) context.Context { return gone() }},
			{"nobody holds it", func(s *stage) context.Context { return s.calm }},
			{"two hold it, and one waits", func(s *stage) context.Context {
				s.holder(two)
				s.holder(two)
				s.holder(mine)
				return s.calm
			}},
		} {
			if op.held && strings.Contains(when.name, "hold") || !op.held && op.name == "Await" && strings.HasPrefix(when.name, "nobody") {
				continue
			}
			all = append(all, scenario{op.name + ", " + when.name, "", func(t *testing.T, s *stage) {
				var l tenure.Lease
				if op.held {
					l = s.acquire(s.calm, of)
				}
				ctx := when.set(s)
				if op.name == "Acquire" && ctx.Err() == nil {
					ctx = bounded(t, 3*time.Second)
				}
				s.call(op.name, func() (any, error) { return op.do(s, ctx, l) })
				if l != nil {
					s.show(l)
				}
			}})
		}
		for _, method := range methods {
			for _, fault := range []struct {
				name   string
				faults []any
			}{
				{"is busy once", []any{busy}},
				{"refuses", []any{denied, denied, denied}},
				{"is silent", []any{silence{}, silence{}, silence{}, silence{}}},
				{"is silent once", []any{silence{}}},
				{"says once that there is no lease", []any{rpctypes.ErrGRPCLeaseNotFound}},
				{"loses an answer", []any{lost{}}},
				{"is silent, and the Leaser closes", []any{silence{}, silence{}, silence{}, silence{}}},
			} {
				asked := false
				play := func(t *testing.T, s *stage) {
					leaves := func() {}
					if !op.held {
						leaves = s.holder(mine)
					}
					var l tenure.Lease
					if op.held {
						l = s.acquire(s.calm, of)
						time.Sleep(time.Second)
					}
					before := len(fault.faults)
					s.fail(method, fault.faults...)
					if op.name == "Acquire" {
						time.AfterFunc(2500*time.Millisecond, leaves)
					}
					if strings.Contains(fault.name, "closes") {
						s.closes(2 * time.Second)
					}
					s.call(op.name, func() (any, error) { return op.do(s, bounded(t, 8*time.Second), l) })
					s.mu.Lock()
					asked = len(s.faults[method]) < before
					s.mu.Unlock()
					if l != nil {
						s.show(l)
					}
				}
				all = append(all, scenario{op.name + ", " + method + " " + fault.name, "", func(t *testing.T, s *stage) {
					play(t, s)
					s.pointless = !asked
				}})
			}
		}
	}
	return all
}

func gone() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errCause)
	return ctx
}

// tenures are the scenarios of a lease's life.
func tenures() []scenario {
	hold := func(t *testing.T, s *stage) tenure.Lease { return s.acquire(s.calm, of) }
	all := []scenario{
		{"a lease is held, renewed and released", "", func(t *testing.T, s *stage) {
			l := hold(t, s)
			time.Sleep(13 * time.Second)
			s.show(l)
			s.call("SetRecord", func() (any, error) { return nil, s.l.SetRecord(s.calm, l, []byte("record")) })
			s.call("Record", func() (any, error) { return s.l.Record(s.calm, "n") })
			s.call("List", func() (any, error) { return s.l.List(s.calm, "") })
			s.release(s.calm, l)
			s.show(l)
			s.release(s.calm, l)
		}},
		{"a lease of a user is renewed", "u", func(t *testing.T, s *stage) {
			l := hold(t, s)
			time.Sleep(13 * time.Second)
			s.release(s.calm, l)
			time.Sleep(10 * time.Second)
		}},
		{"a lease with a lock delay", "", func(t *testing.T, s *stage) {
			l := s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.LockDelay = 4500 * time.Millisecond }))
			time.Sleep(7 * time.Second)
			s.show(l)
			s.call("Observe", func() (any, error) { return s.l.Observe(s.calm, "n") })
			s.fail("LeaseRevoke", silence{}, silence{})
			s.release(bounded(t, time.Second), l)
			s.release(gone(), l)
		}},
		{"a lease with a lock delay is lost", "", func(t *testing.T, s *stage) {
			l := s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.LockDelay = 4500 * time.Millisecond }))
			s.fail("LeaseKeepAlive", silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{})
			time.Sleep(18 * time.Second)
			s.show(l)
			s.release(s.calm, l)
			time.Sleep(10 * time.Second)
		}},
		{"a default claim", "", func(t *testing.T, s *stage) {
			l := s.acquire(s.calm, tenure.Claim{Name: "n", Holder: "h"})
			s.release(s.calm, l)
		}},
		{"claims that are refused", "", func(t *testing.T, s *stage) {
			for _, c := range []tenure.Claim{
				{}, {Name: "n", Holder: "h", TTL: 1500 * time.Millisecond}, {Name: "n", Holder: "h", TTL: 300 * time.Millisecond}, {Name: "n", Holder: "h", Slots: -1}, {Name: "n", Holder: "h", LockDelay: -1},
			} {
				s.acquire(s.calm, c)
				s.try(s.calm, c)
			}
			for _, name := range []string{"", "a\n"} {
				s.call("Observe", func() (any, error) { return s.l.Observe(s.calm, name) })
				s.call("Await", func() (any, error) { return s.l.Await(s.calm, tenure.State{Name: name}) })
				s.call("Record", func() (any, error) { return s.l.Record(s.calm, name) })
				s.call("Break", func() (any, error) { return nil, s.l.Break(s.calm, name, nil) })
			}
			s.call("SetRecord", func() (any, error) { return nil, s.l.SetRecord(s.calm, nil, nil) })
			for _, cfg := range []Config{{Endpoints: []string{"a:1", "b:2"}, Username: "u"}, {Endpoints: []string{"a:1", "b:2"}, Password: "p"}} {
				s.call("Open", func() (any, error) {
					_, err := Open(s.calm, cfg)
					return nil, err
				})
			}
		}},
		{"a slow server", "", func(t *testing.T, s *stage) {
			s.fail("LeaseGrant", later(400*time.Millisecond))
			s.release(s.calm, s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.TTL = time.Second })))
			s.fail("LeaseGrant", later(400*time.Millisecond))
			s.fail("LeaseKeepAlive", later(500*time.Millisecond))
			s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.TTL = time.Second }))
		}},
		{"a slow server, and a lease that is short beside its lock delay", "", func(t *testing.T, s *stage) {
			s.fail("LeaseGrant", later(400*time.Millisecond))
			s.fail("LeaseKeepAlive", later(500*time.Millisecond))
			s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.TTL, c.LockDelay = time.Second, time.Minute }))
		}},
		{"a slow server, and a lease that ends before it is queued", "", func(_ *testing.T, s *stage) {
			s.fail("LeaseGrant", later(400*time.Millisecond))
			s.fail("Txn", rpctypes.ErrGRPCLeaseNotFound)
			s.fail("LeaseKeepAlive", later(500*time.Millisecond), later(500*time.Millisecond))
			s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.TTL = time.Second }))
		}},
		{"a list of more than a page", "", func(_ *testing.T, s *stage) {
			s.mu.Lock()
			for i := range 2*listPage - 1 {
				s.put(fmt.Sprintf("n/x%04d", i), "", 0)
			}
			s.mu.Unlock()
			s.holder(mine)
			s.call("List", func() (any, error) { return s.l.List(s.calm, "n") })
		}},
		{"exclusive claims in turn", "", func(t *testing.T, s *stage) {
			first, second := s.holder(mine), s.holder("of another program")
			l := make(chan tenure.Lease)
			go func() { l <- hold(t, s) }()
			time.Sleep(7 * time.Second)
			second()
			time.Sleep(time.Second)
			first()
			held := <-l
			time.Sleep(time.Second)
			s.call("Await", func() (any, error) {
				time.AfterFunc(2*time.Second, func() { s.l.Break(s.calm, "n", []tenure.Holding{{Token: held.Token()}}) })
				return s.l.Await(s.calm, tenure.State{Name: "n", Holders: []tenure.Holding{{Token: held.Token()}}})
			})
			time.Sleep(time.Second)
			s.show(held)
			s.release(s.calm, held)
		}},
		{"Await sees another holder", "", func(t *testing.T, s *stage) {
			first := s.holder(mine)
			s.holder(two)
			s.call("Await", func() (any, error) {
				time.AfterFunc(2*time.Second, first)
				return s.l.Await(s.calm, tenure.State{Name: "n", Holders: []tenure.Holding{{Token: 2}}})
			})
		}},
		{"Await's watch ends", "", func(t *testing.T, s *stage) {
			s.fail("Watch", rpctypes.ErrGRPCNoLeader, 5)
			s.call("Await", func() (any, error) { return s.l.Await(bounded(t, 2*time.Second), tenure.State{Name: "n"}) })
		}},
		{"one of several, in turn", "", func(t *testing.T, s *stage) {
			first, second := s.holder(mine), s.holder(two)
			l := make(chan tenure.Lease)
			go func() {
				l <- s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.Slots, c.LockDelay = 2, time.Second }))
			}()
			time.Sleep(time.Second)
			second()
			time.Sleep(time.Second)
			first()
			s.release(s.calm, <-l)
		}},
		{"a waiter's watch ends", "", func(t *testing.T, s *stage) {
			leaves := s.holder(mine)
			s.fail("Watch", denied, 5, silence{})
			go func() {
				time.Sleep(5 * time.Second)
				leaves()
			}()
			s.acquire(bounded(t, 10*time.Second), of)
		}},
		{"a waiter's lease ends", "", func(t *testing.T, s *stage) {
			leaves := s.holder(mine)
			go func() {
				time.Sleep(time.Second)
				s.mu.Lock()
				s.revoke(102)
				s.mu.Unlock()
				time.Sleep(10 * time.Second)
				leaves()
			}()
			s.acquire(bounded(t, 20*time.Second), of)
		}},
		{"a waiter's Leaser closes", "", func(t *testing.T, s *stage) {
			s.holder(mine)
			s.closes(time.Second)
			hold(t, s)
		}},
		{"a holder's key is deleted", "", func(t *testing.T, s *stage) {
			l := hold(t, s)
			time.Sleep(time.Second)
			s.mu.Lock()
			s.remove("n/65")
			s.mu.Unlock()
			time.Sleep(time.Second)
			s.show(l)
			s.call("SetRecord", func() (any, error) { return nil, s.l.SetRecord(s.calm, l, []byte("r")) })
			s.release(s.calm, l)
		}},
		{"a holder's record comes too late", "", func(t *testing.T, s *stage) {
			l := hold(t, s)
			time.Sleep(time.Second)
			s.mu.Lock()
			delete(s.keys, "n/65") // unseen
			s.mu.Unlock()
			s.call("SetRecord", func() (any, error) { return nil, s.l.SetRecord(s.calm, l, []byte("r")) })
			s.show(l)
		}},
		{"a holder's watch is compacted", "", func(t *testing.T, s *stage) {
			s.fail("Watch", 7, 8)
			l := hold(t, s)
			time.Sleep(time.Second)
			s.show(l)
		}},
		{"a holder's watch is compacted, and others write", "", func(t *testing.T, s *stage) {
			s.fail("Watch", 7)
			time.AfterFunc(3500*time.Microsecond, func() { s.holder(mine) })
			l := hold(t, s)
			time.Sleep(time.Second)
			s.show(l)
		}},
		{"a holder's watch has no leader, and it may not look", "", func(t *testing.T, s *stage) {
			s.fail("Watch", rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNoLeader)
			s.fail("Range", denied, busy)
			l := hold(t, s)
			time.Sleep(9 * time.Second)
			s.show(l)
		}},
		{"close with two leases", "", func(t *testing.T, s *stage) {
			a := hold(t, s)
			b := s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.Name, c.LockDelay = "o", time.Hour }))
			s.fail("LeaseRevoke", silence{}, silence{}, silence{}, silence{})
			s.l.owned = true
			s.close()
			s.close()
			s.show(a)
			s.show(b)
		}},
		{"close of a client that is closed", "", func(t *testing.T, s *stage) {
			s.client.Close()
			s.l.owned = true
			s.close()
			s.close()
		}},
		{"a release goes on in the background", "", func(t *testing.T, s *stage) {
			l := hold(t, s)
			s.fail("LeaseRevoke", busy, silence{}, silence{}, silence{}, silence{}, silence{}, silence{})
			s.release(bounded(t, time.Second), l)
			time.Sleep(time.Minute)
			s.show(l)
			s.release(bounded(t, 2*time.Second), l)
		}},
		{"a release with a lock delay goes on in the background", "", func(t *testing.T, s *stage) {
			l := s.acquire(s.calm, claimOf(func(c *tenure.Claim) { c.LockDelay = 2 * time.Second }))
			s.fail("LeaseRevoke", slices.Repeat([]any{silence{}}, 20)...)
			s.release(bounded(t, time.Second), l)
			time.Sleep(time.Minute)
			s.release(bounded(t, 2*time.Second), l)
		}},
		{"a lease is lost, and its caller leaves", "", func(t *testing.T, s *stage) {
			l := hold(t, s)
			s.fail("LeaseKeepAlive", slices.Repeat([]any{silence{}}, 20)...)
			s.fail("LeaseRevoke", slices.Repeat([]any{silence{}}, 20)...)
			time.Sleep(18 * time.Second)
			s.release(gone(), l)
		}},
	}
	for _, fault := range []struct {
		name   string
		faults []any
		user   string
	}{
		{"is busy once", []any{busy}, ""},
		{"is silent", []any{silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}, silence{}}, ""},
		{"is silent once", []any{silence{}}, "u"},
		{"ends the stream once", []any{cut{}}, ""},
		{"ends the stream of a user once", []any{nil, cut{}}, "u"},
		{"refuses", []any{denied, denied, denied, denied, denied, denied, denied, denied, denied}, ""},
		{"refuses a user", []any{denied, denied, denied, denied, denied, denied, denied, denied, denied}, "u"},
		{"does not know a user", []any{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCAuthFailed}, "u"},
	} {
		all = append(all, scenario{"a renewal " + fault.name, fault.user, func(t *testing.T, s *stage) {
			l := hold(t, s)
			s.fail("LeaseKeepAlive", fault.faults...)
			time.Sleep(17500 * time.Millisecond)
			s.show(l)
			time.Sleep(3 * time.Second)
			s.release(s.calm, l)
		}})
	}
	all = append(all, scenario{"a renewal of a lease that has ended", "u", func(t *testing.T, s *stage) {
		l := hold(t, s)
		s.mu.Lock()
		delete(s.leases, 101)
		s.mu.Unlock()
		time.Sleep(7 * time.Second)
		s.show(l)
		s.release(s.calm, l)
	}})
	return all
}

// played is what a scenario writes down.
func played(t *testing.T, sc scenario) (text string) {
	bubble.Test(t, func(t *testing.T) {
		s, end := newStage(t, sc.user)
		sc.play(t, s)
		s.closing.Wait()
		s.close()
		time.Sleep(time.Second) // what the Leaser has begun ends
		synctest.Wait()
		end()
		if !s.pointless {
			text = "== " + sc.name + "\n" + s.text()
		}
	})
	return text
}

// All that a Leaser asks its server for and tells its caller, over the life of a lease and for each trouble of each request:
// with arguments, time limits, errors, and the state of the lease. `-rewrite` writes it anew.
func TestTranscript(t *testing.T) {
	var got []string
	for _, sc := range scenarios() {
		if text := played(t, sc); text != "" {
			got = append(got, text)
		}
	}
	golden.Parts(t, "testdata/transcript.txt", got)
}
