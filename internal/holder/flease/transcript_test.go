package flease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// call calls the client, and notes what it returns, how many connections it remembers, and how many leases of these.
func (h *hub) call(name string, f func() (any, error)) any {
	h.note("= %s", name)
	v, err := f()
	time.Sleep(3 * time.Millisecond) // what it has begun is begun
	if l, ok := v.(tenure.Lease); ok && err != nil && l == nil {
		v = nil
	}
	h.note("> %s: %s, %s%s", name, returned(v), learned(err), h.remembered())
	if err != nil {
		return nil
	}
	return v
}

func (h *hub) remembered() string {
	if h.c == nil {
		return ""
	}
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	text := "; remembered:"
	for _, n := range h.c.conns {
		n.mu.Lock()
		text += fmt.Sprintf(" a connection (%s) with %d leases, %d questions", learned(context.Cause(n.ctx)), len(n.leases), len(n.asked))
		n.mu.Unlock()
	}
	return text
}

func lone(l tenure.Lease, err error) (any, error) {
	if l == nil {
		return nil, err
	}
	return l, err
}

func (h *hub) connect() {
	h.call("Connect", func() (any, error) {
		c, err := Connect(h.calm, h.config())
		if err == nil {
			h.c = c
		}
		return nil, err
	})
}

func (h *hub) acquire(ctx context.Context, c tenure.Claim) tenure.Lease {
	l, _ := h.call("Acquire", func() (any, error) { return lone(h.c.Acquire(ctx, c)) }).(tenure.Lease)
	return l
}

func (h *hub) try(ctx context.Context, c tenure.Claim) tenure.Lease {
	l, _ := h.call("TryAcquire", func() (any, error) { return lone(h.c.TryAcquire(ctx, c)) }).(tenure.Lease)
	return l
}

func (h *hub) release(ctx context.Context, l tenure.Lease) {
	h.call("Release", func() (any, error) { return nil, l.Release(ctx) })
}

func (h *hub) show(l tenure.Lease) { h.note("# %s%s", shows(l), h.remembered()) }

func (h *hub) close() {
	if h.c != nil {
		h.call("Close", func() (any, error) { return nil, h.c.Close() })
	}
}

// bounded is a context that ends by a cause of the caller's.
func bounded(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errCause)
	t.Cleanup(cancel)
	return ctx
}

// of is a plain claim.
var of = tenure.Claim{Name: "n", Holder: "me", TTL: 8 * time.Second}

// operations are all that can be asked of a client. Each begins with a lease that is held, or with nil.
var operations = []struct {
	name, op string
	held     bool
	do       func(*hub, context.Context, tenure.Lease) (any, error)
}{
	{"Observe", "observe", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return h.c.Observe(ctx, "n") }},
	{"Await", "await", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) {
		return h.c.Await(ctx, tenure.State{Name: "n", Holders: []tenure.Holding{{Token: 3}, {Token: 1 << 63}}})
	}},
	{"List", "list", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return h.c.List(ctx, "n") }},
	{"Record", "record", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return h.c.Record(ctx, "n") }},
	{"Status", "status", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return h.c.Status(ctx) }},
	{"Acquire", "acquire", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return lone(h.c.Acquire(ctx, of)) }},
	{"TryAcquire", "acquire", false, func(h *hub, ctx context.Context, _ tenure.Lease) (any, error) { return lone(h.c.TryAcquire(ctx, of)) }},
	{"SetRecord", "set record", true, func(h *hub, ctx context.Context, l tenure.Lease) (any, error) {
		return nil, h.c.SetRecord(ctx, l, []byte("r"))
	}},
	{"Release", "release", true, func(h *hub, ctx context.Context, l tenure.Lease) (any, error) { return nil, l.Release(ctx) }},
}

type scenario struct {
	name string
	play func(*testing.T, *hub)
}

var heldBy = tenure.HeldError{Name: "n", Holder: "other"}

func scenarios() []scenario {
	all := append(tenures(), connections()...)
	always := func(fault any) []any { return slices.Repeat([]any{fault}, 400) }
	for _, op := range operations {
		for _, fault := range []struct {
			name  string
			op    string
			fault []any
		}{
			{"nothing is wrong", op.op, nil},
			{"the peer is busy once", op.op, []any{ErrBusy}},
			{"it is refused as a claim", op.op, always(fmt.Errorf("%w: because", tenure.ErrClaim))},
			{"it is held", op.op, always(fmt.Errorf("so %w", heldBy))},
			{"the TTL is too short", op.op, always(tenure.ErrTTLTooShort)},
			{"the peer is closed", op.op, always(tenure.ErrClosed)},
			{"it is lost", op.op, []any{tenure.ErrLost}},
			{"the peers are away once", op.op, []any{fmt.Errorf("%w: because", tenure.ErrUnavailable)}},
			{"there is another error", op.op, always(errors.New("another"))},
			{"the peer is silent", op.op, always(silence{})},
			{"the connection ends once", op.op, []any{cut{}}},
			{"the answer comes twice", op.op, []any{twice{}}},
			{"the answer comes late", op.op, []any{delayed(4 * time.Second)}},
			{"the answer is of another question", op.op, []any{event{Event: "observed", ID: 4711}}},
			{"the answer has nothing in it", op.op, []any{event{Event: "none", None: true}}},
			{"the peer is silent, and the client closes", op.op, always(silence{})},
			{"its caller leaves at once", op.op, nil},
			{"the client is closed", op.op, nil},
			{"the connection has ended, and there is no other for a while", "dial", slices.Concat(slices.Repeat([]any{syscall.ECONNREFUSED}, 10), []any{nil})},
			{"the connection has ended, and there is no other", "dial", always(silence{})},
			{"the connection has ended, and the next peer is another", "hello", []any{event{Event: "welcome", Version: 1}, event{Event: "error", Error: "go away"}, nil}},
		} {
			all = append(all, scenario{op.name + ", " + fault.name, func(t *testing.T, h *hub) {
				h.connect()
				var l tenure.Lease
				if op.held {
					l = h.acquire(h.calm, of)
				}
				ctx := bounded(t, 3*time.Second)
				h.fail(fault.op, fault.fault...)
				switch {
				case strings.Contains(fault.name, "closes"):
					h.serves.Go(func() {
						time.Sleep(time.Second)
						h.close()
					})
				case strings.Contains(fault.name, "leaves at once"):
					ctx = bounded(t, 500*time.Microsecond)
				case strings.Contains(fault.name, "is closed") && fault.fault == nil:
					h.close()
				case strings.Contains(fault.name, "has ended"):
					h.conns[0].conn.Close()
					time.Sleep(time.Millisecond)
				}
				h.call(op.name, func() (any, error) { return op.do(h, ctx, l) })
				if l != nil {
					h.show(l)
				}
				time.Sleep(3 * time.Second)
			}})
		}
	}
	return all
}

func tenures() []scenario {
	with := func(f func(*tenure.Claim)) tenure.Claim {
		c := of
		f(&c)
		return c
	}
	return []scenario{
		{"two leases are held, renewed and released", func(_ *testing.T, h *hub) {
			h.connect()
			a := h.acquire(h.calm, of)
			time.Sleep(time.Second)
			b := h.try(h.calm, with(func(c *tenure.Claim) {
				c.Name, c.TTL, c.Slots, c.LockDelay = "o", 4*time.Second, 3, 1500*time.Microsecond
			}))
			time.Sleep(9300 * time.Millisecond)
			h.show(a)
			h.release(h.calm, b)
			time.Sleep(3 * time.Second)
			h.release(h.calm, a)
			h.release(h.calm, a)
			h.show(a)
			time.Sleep(5 * time.Second)
		}},
		{"claims of the default TTL", func(t *testing.T, h *hub) {
			h.connect()
			h.acquire(h.calm, tenure.Claim{Name: "n", Holder: "h"})
			h.acquire(h.calm, tenure.Claim{Name: "n", Holder: "h", LockDelay: 35 * time.Second})
			h.acquire(bounded(t, time.Second), tenure.Claim{Name: "n", Holder: "h", LockDelay: time.Minute})
		}},
		{"claims that are refused", func(_ *testing.T, h *hub) {
			h.connect()
			for _, c := range []tenure.Claim{{}, {Name: "n", Holder: "h", TTL: time.Second + 1}, {Name: "n", Slots: -1}} {
				h.acquire(h.calm, c)
				h.try(h.calm, c)
			}
			for _, name := range []string{"", "a\n"} {
				h.call("Observe", func() (any, error) { return h.c.Observe(h.calm, name) })
				h.call("Await", func() (any, error) { return h.c.Await(h.calm, tenure.State{Name: name}) })
				h.call("Record", func() (any, error) { return h.c.Record(h.calm, name) })
			}
			h.call("SetRecord", func() (any, error) { return nil, h.c.SetRecord(h.calm, nil, nil) })
		}},
		{"a lease is lost by the peer's word", func(_ *testing.T, h *hub) {
			h.connect()
			for _, why := range []string{"", "its words"} {
				l := h.acquire(h.calm, of)
				h.say(event{Event: "lost", ID: l.(*clientLease).id, Error: why})
				time.Sleep(time.Millisecond)
				h.show(l)
				h.call("SetRecord", func() (any, error) { return nil, h.c.SetRecord(h.calm, l, []byte("r")) })
				h.release(h.calm, l)
			}
			h.say(event{Event: "lost", ID: 4711})
			h.say(event{Event: "renewed", ID: 4711})
			h.say(event{Event: "acquired", ID: 4712})
			time.Sleep(5 * time.Second)
		}},
		{"a peer says nothing any more", func(_ *testing.T, h *hub) {
			h.connect()
			l := h.acquire(h.calm, of)
			h.fail("alive", silence{}, silence{}, silence{}, silence{}, silence{})
			time.Sleep(9 * time.Second)
			h.show(l)
			h.release(h.calm, l)
		}},
		{"a connection ends with an error, and its lease is held on", func(_ *testing.T, h *hub) {
			h.connect()
			l := h.acquire(h.calm, of)
			h.say(event{Event: "error", Error: "its words"})
			time.Sleep(time.Second)
			h.show(l)
			h.call("Observe", func() (any, error) { return h.c.Observe(h.calm, "n") })
			h.acquire(h.calm, of)
			time.Sleep(8 * time.Second)
			h.show(l)
			h.conns[1].conn.Close()
			time.Sleep(9 * time.Second)
			h.call("Observe", func() (any, error) { return h.c.Observe(h.calm, "n") })
		}},
		{"close with leases of two connections", func(_ *testing.T, h *hub) {
			h.connect()
			a := h.acquire(h.calm, of)
			h.conns[0].conn.Close()
			time.Sleep(time.Millisecond)
			b := h.acquire(h.calm, of)
			c := h.acquire(h.calm, with(func(c *tenure.Claim) { c.Name = "o" }))
			h.fail("release", nil, errors.New("its words"))
			h.close()
			h.close()
			for _, l := range []tenure.Lease{a, b, c} {
				h.show(l)
				h.release(h.calm, l)
			}
		}},
		{"close at a peer that says nothing", func(_ *testing.T, h *hub) {
			h.connect()
			l := h.acquire(h.calm, of)
			h.fail("release", silence{})
			h.close()
			h.show(l)
			h.release(h.calm, l)
		}},
		{"tries of the default TTL, and a peer that says nothing to one", func(t *testing.T, h *hub) {
			h.connect()
			h.try(h.calm, tenure.Claim{Name: "n", Holder: "h", LockDelay: 35 * time.Second})
			h.fail("acquire", silence{})
			h.try(h.calm, of)
		}},
		{"a peer that is busy until its caller leaves", func(t *testing.T, h *hub) {
			h.connect()
			for _, op := range []string{"observe", "acquire"} {
				h.fail(op, slices.Repeat([]any{ErrBusy}, 100)...)
			}
			h.call("Observe", func() (any, error) { return h.c.Observe(bounded(t, 990*time.Millisecond), "n") })
			h.acquire(bounded(t, 990*time.Millisecond), of)
		}},
		{"a claim that is admitted, or refused, as its caller leaves", func(t *testing.T, h *hub) {
			h.connect()
			h.fail("acquire", delayed(100*time.Millisecond), delayed(500*time.Millisecond), delayed(2*time.Second))
			for range 3 {
				h.acquire(bounded(t, 50*time.Millisecond), of)
				time.Sleep(3 * time.Second)
			}
		}},
		{"a release near the deadline of its lease", func(t *testing.T, h *hub) {
			h.connect()
			l := h.acquire(h.calm, of)
			h.fail("alive", slices.Repeat([]any{silence{}}, 10)...)
			h.fail("release", silence{})
			time.Sleep(7500 * time.Millisecond)
			h.release(h.calm, l)
		}},
		{"the record of another client's lease", func(_ *testing.T, h *hub) {
			h.connect()
			other := h.c
			l := h.acquire(h.calm, of)
			h.connect()
			h.call("SetRecord", func() (any, error) { return nil, h.c.SetRecord(h.calm, l, []byte("r")) })
			h.call("SetRecord", func() (any, error) { return nil, other.SetRecord(h.calm, l, make([]byte, 3000)) })
			h.call("Close of the other", func() (any, error) { return nil, other.Close() })
		}},
		{"close at a peer that is slow", func(_ *testing.T, h *hub) {
			h.connect()
			for _, name := range []string{"a", "b", "c"} {
				h.acquire(h.calm, with(func(c *tenure.Claim) { c.Name = name }))
			}
			h.fail("release", nil, delayed(1500*time.Millisecond), delayed(1500*time.Millisecond))
			h.close()
		}},
		{"a release in vain, again", func(t *testing.T, h *hub) {
			h.connect()
			l := h.acquire(h.calm, of)
			h.fail("release", silence{})
			h.release(bounded(t, time.Second), l)
			h.release(h.calm, l)
		}},
	}
}

// connections are the scenarios of peers that are there, or not.
func connections() (all []scenario) {
	refused := &os.PathError{Op: "dial", Path: "/socket", Err: syscall.ECONNREFUSED}
	absent := &os.PathError{Op: "dial", Path: "/socket", Err: syscall.ENOENT}
	for _, tt := range []struct {
		name  string
		dial  []any
		hello []any
	}{
		{"at once", nil, nil},
		{"after a while", []any{refused, absent, nil}, nil},
		{"never", slices.Repeat([]any{absent}, 1000), nil},
		{"not, for another reason", []any{os.ErrPermission}, nil},
		{"absent, and then not, for another reason", []any{absent, os.ErrPermission}, nil},
		{"absent, and then silent", []any{absent, silence{}, silence{}}, nil},
		{"not, as nobody answers", []any{silence{}}, nil},
		{"with another version", nil, []any{event{Event: "welcome", Version: 9}}},
		{"with an error", nil, []any{event{Event: "error", Error: "its words", Reason: "busy"}}},
		{"with another clock", nil, []any{event{Event: "welcome", Version: socketVersion, At: 5}}},
		{"with a hello that has no answer", nil, []any{silence{}}},
		{"with a hello that ends", nil, []any{cut{}}},
	} {
		for _, limit := range []time.Duration{0, 2 * time.Second, 20 * time.Second} {
			all = append(all, scenario{fmt.Sprintf("a client that awaits its peer for %v connects %s", limit, tt.name), func(t *testing.T, h *hub) {
				ctx := context.Background()
				if limit > 0 {
					ctx = bounded(t, limit)
				}
				h.fail("dial", tt.dial...)
				h.fail("hello", tt.hello...)
				h.call("Await", func() (any, error) {
					c, err := Await(ctx, h.config())
					h.c = c
					return nil, err
				})
			}})
		}
	}
	all = append(all, scenario{"a caller leaves while another dials", func(t *testing.T, h *hub) {
		h.connect()
		h.conns[0].conn.Close()
		time.Sleep(time.Millisecond)
		h.fail("dial", silence{})
		h.serves.Go(func() {
			h.call("List", func() (any, error) { return h.c.List(h.calm, "n") })
		})
		time.Sleep(time.Second)
		h.call("Observe", func() (any, error) { return h.c.Observe(bounded(t, time.Second), "n") })
		h.call("TryAcquire", func() (any, error) { return lone(h.c.TryAcquire(bounded(t, time.Second), of)) })
		time.Sleep(5 * time.Second)
	}})
	return all
}

// played is what a scenario writes down.
func played(t *testing.T, sc scenario) (text string) {
	bubble.Test(t, func(t *testing.T) {
		h, end := newHub()
		sc.play(t, h)
		h.close()
		time.Sleep(time.Second) // what the client has begun ends
		synctest.Wait()
		end()
		text = "== " + sc.name + "\n" + h.text()
	})
	return text
}

// All that a client tells its peer and its caller, over the life of a lease and for each trouble of each request: with
// arguments, time limits, errors, and the state of the lease and of the client. `-rewrite` writes it anew.
func TestTranscript(t *testing.T) {
	var got []string
	for _, sc := range scenarios() {
		got = append(got, played(t, sc))
	}
	golden.Parts(t, "testdata/transcript.txt", got)
}
