package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// hub is a peer of clients in a bubble that grants what it is asked for. It writes down each line that it gets, and each dial. Each
// answer takes a millisecond.
type hub struct {
	clock *clock.Simulated
	c     *Client
	calm  context.Context // of calls that end by themselves

	mu     sync.Mutex
	log    []line
	faults map[string][]any // by request, for the next ones: an error, an event, silence, cut, or nil
	token  uint64
	conns  []*lines
	serves sync.WaitGroup
}

type line struct {
	at   time.Time
	text string
}

// Faults of a request beside the error, or another event, in its answer.
type (
	silence struct{} // there is no answer
	cut     struct{} // the connection ends
	twice   struct{} // the answer comes twice
	delayed time.Duration
)

func newHub() (h *hub, end func()) {
	h = &hub{clock: clock.NewSimulated(machine.Mono(time.Hour)), faults: map[string][]any{}}
	var over context.CancelFunc
	h.calm, over = context.WithTimeoutCause(context.Background(), 10*time.Minute, errors.New("ten minutes were not enough"))
	return h, func() {
		over()
		h.mu.Lock()
		for _, l := range h.conns {
			l.conn.Close()
		}
		h.mu.Unlock()
		h.serves.Wait()
	}
}

func (h *hub) config() ClientConfig {
	return ClientConfig{Socket: "/socket", Clock: h.clock, Dial: h.dial}
}

func (h *hub) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line{time.Now(), fmt.Sprintf(format, args...)})
}

// fail has the next requests of a kind end with these faults; nil is for one that succeeds.
func (h *hub) fail(op string, faults ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[op] = faults
}

func (h *hub) fault(op string) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.faults[op]
	if len(all) == 0 {
		return nil
	}
	h.faults[op] = all[1:]
	return all[0]
}

func (h *hub) dial(ctx context.Context, path string) (net.Conn, error) {
	limit := "for ever"
	if end, has := ctx.Deadline(); has {
		limit = time.Until(end).String()
	}
	h.note("dial %s within %s", path, limit)
	time.Sleep(time.Millisecond)
	switch fault := h.fault("dial").(type) {
	case error:
		return nil, fault
	case silence:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	l := newLines(theirs, answerBytesMax)
	h.mu.Lock()
	h.conns = append(h.conns, l)
	n := len(h.conns)
	h.mu.Unlock()
	h.serves.Go(func() { h.serve(n, l) })
	return ours, nil
}

func (h *hub) serve(n int, l *lines) {
	defer l.conn.Close()
	for {
		var r request
		if err := l.receive(&r); err != nil {
			h.note("connection %d ends", n)
			return
		}
		shown := r
		if shown.At = 0; r.At != 0 {
			shown.At = machine.Mono(1 + h.clock.Now().Sub(r.At)) // 1: of this moment
		}
		b, _ := json.Marshal(shown)
		h.note("%d: %s", n, b)
		time.Sleep(time.Millisecond)
		answers := h.answers(r)
		switch fault := h.fault(r.Op).(type) {
		case error:
			answers = []event{event{Event: "refused", ID: r.ID}.fill(fault)}
		case event:
			if fault.ID == 0 {
				fault.ID = r.ID
			}
			answers = []event{fault}
		case delayed:
			time.Sleep(time.Duration(fault))
		case twice:
			answers = append(answers, answers...)
		case silence:
			answers = nil
		case cut:
			l.conn.Close()
		}
		for _, e := range answers {
			_ = l.send(e)
		}
	}
}

// say sends an event over the newest connection.
func (h *hub) say(e event) {
	h.mu.Lock()
	l := h.conns[len(h.conns)-1]
	h.mu.Unlock()
	_ = l.send(e)
}

func (h *hub) answers(r request) []event {
	now := h.clock.Now()
	state := &tenure.State{Name: r.Name, Waiting: 3, Holders: []tenure.Holding{{Holder: "other", Token: 17, Slots: 2, Until: time.Now().Add(time.Minute)}}}
	e := event{ID: r.ID}
	switch r.Op {
	case "hello":
		e.Event, e.Version, e.At, e.TMaxMS = "welcome", socketVersion, now, 40_000
	case "acquire":
		if r.TTLMS == 0 {
			return []event{event{Event: "refused", ID: r.ID}.fill(tenure.ErrClaim)}
		}
		h.mu.Lock()
		h.token++
		e.Event, e.Token, e.TTLMS, e.Until = "acquired", h.token, r.TTLMS, now.Add(time.Duration(r.TTLMS)*time.Millisecond)
		h.mu.Unlock()
	case "alive":
		var all []event
		for _, id := range r.IDs {
			all = append(all, event{Event: "renewed", ID: id, Until: now.Add(8 * time.Second)})
		}
		return all
	case "cancel":
		return nil
	case "release":
		e.Event = "released"
	case "observe", "await":
		e.Event, e.State = "observed", state
	case "list":
		more := e
		more.Event, more.Names, more.More = "names", []string{"a", "b"}, true
		e.Event, e.Names = "names", []string{"c"}
		return []event{more, e}
	case "record":
		e.Event, e.Record = "record", []byte("record of "+r.Name)
	case "set record":
		e.Event, e.ID = "recorded", r.ID
	case "status":
		e.Event, e.Status = "status", &Status{Self: 5}
	}
	return []event{e}
}

// text is the log: each line with the time since the one before it. Lines of one moment are sorted.
func (h *hub) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.log, func(a, b line) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	var moments []string
	var last time.Time
	for i, l := range h.log {
		switch {
		case i == 0:
			moments = append(moments, "")
		case l.at.After(last):
			moments = append(moments, fmt.Sprintf("-- %s\n", l.at.Sub(last).Round(time.Microsecond)))
		}
		last = l.at
		moments[len(moments)-1] += l.text + "\n"
	}
	return folded(moments)
}

var ids = regexp.MustCompile(`"ids?":\[?\d+|connection \d+|\d+: `)

// folded tells moments that repeat themselves, but for the numbers of requests and connections, once.
func folded(moments []string) string {
	var out strings.Builder
	for i := 0; i < len(moments); {
		for period := 1; period <= 4; period++ {
			n := 0
			for i >= period && i+(n+1)*period <= len(moments) && ids.ReplaceAllString(strings.Join(moments[i+n*period:i+(n+1)*period], ""), "") == ids.ReplaceAllString(strings.Join(moments[i-period:i], ""), "") {
				n++
			}
			if n > 0 {
				fmt.Fprintf(&out, "and the last %d so again, %d times\n", period, n)
				i += n * period
				break
			}
		}
		if i < len(moments) {
			out.WriteString(moments[i])
			i++
		}
	}
	return out.String()
}

// sorts are what callers compare an error with.
var sorts = []struct {
	name string
	err  error
}{
	{"lost", tenure.ErrLost}, {"released", tenure.ErrReleased}, {"closed", tenure.ErrClosed}, {"unavailable", tenure.ErrUnavailable},
	{"claim", tenure.ErrClaim}, {"short TTL", tenure.ErrTTLTooShort}, {"busy", ErrBusy}, {"canceled", context.Canceled}, {"deadline", context.DeadlineExceeded},
	{"cause", errCause}, {"patience", holder.ErrPatience}, {"refused", syscall.ECONNREFUSED}, {"absent", syscall.ENOENT},
}

var errCause = errors.New("the caller's cause")

// learned is an error with all that callers can learn from it.
func learned(err error) string {
	if err == nil {
		return "no error"
	}
	var is []string
	for _, k := range sorts {
		if errors.Is(err, k.err) {
			is = append(is, k.name)
		}
	}
	if held := (tenure.HeldError{}); errors.As(err, &held) {
		is = append(is, fmt.Sprintf("%q is held by %s for %s", held.Name, held.Holder, time.Until(held.Until)))
	}
	return fmt.Sprintf("error [%s] (%s)", strings.ReplaceAll(err.Error(), "\n", " "), strings.Join(is, ", "))
}

// shows is all that a lease shows.
func shows(l tenure.Lease) string {
	return fmt.Sprintf("%q of %s, token %d, for %s, check %s, err %s, context %s", l.Name(), l.Holder(), l.Token(), time.Until(l.Deadline()), learned(l.Check()), learned(l.Err()), learned(context.Cause(l.Context())))
}

func returned(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case tenure.Lease:
		return shows(v)
	case tenure.State:
		text := fmt.Sprintf("%q, %d waiting", v.Name, v.Waiting)
		for _, h := range v.Holders {
			text += fmt.Sprintf(", %s with token %d of %d slots for %s", h.Holder, h.Token, h.Slots, time.Until(h.Until))
		}
		return text
	case Status:
		return fmt.Sprintf("the status of peer %d", v.Self)
	}
	return fmt.Sprintf("%q", v)
}
