package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// answering is a process that answers at its address as a test says.
type answering struct {
	addr   string
	answer atomic.Pointer[string] // JSON
	asked  atomic.Int64
}

// setAnswer sets the answer.
func (a *answering) setAnswer(v any) {
	said, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		said = string(b)
	}
	a.answer.Store(&said)
	a.asked.Store(0)
}

func newAnswering(t *testing.T) *answering {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &answering{addr: l.Addr().String()}
	a.setAnswer("")
	other, err := peer.New(peer.Config{
		Self: 9, ClusterID: 1, Listener: l, Peers: map[machine.NodeID]string{9: a.addr}, FrameBytesMax: 1 << 20, QueueBytes: 1 << 20,
		Deliver: func(machine.NodeID, [][]byte) {}, Logger: slog.New(slog.DiscardHandler),
		Answer: func([]byte) []byte { a.asked.Add(1); return []byte(*a.answer.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return a
}

// TestWhoIsInItsPlace: a process at a peer's address displaces it if it answers as that peer of that cluster with
// another incarnation. No other answer, and no silence, displaces it.
func TestWhoIsInItsPlace(t *testing.T) {
	there := newAnswering(t)
	p := &Peer{cfg: Config{Cluster: "c", Self: there.addr}, self: 1}
	p.pure.Incarnation = 7
	p.ctx, p.cancel = context.WithCancelCause(t.Context())
	for name, tt := range map[string]struct {
		says any
		want bool
	}{
		"itself":                             {terms{Cluster: "c", Self: 1, Life: 7}, false},
		"another life":                       {terms{Cluster: "c", Self: 1, Life: 8}, true},
		"another peer":                       {terms{Cluster: "c", Self: 2, Life: 8}, false},
		"a peer of another cluster":          {terms{Cluster: "d", Self: 1, Life: 8}, false},
		"something else":                     {"junk", false},
		"one that does not name itself":      {"{}", false},
		"a life of a version that says none": {terms{Cluster: "c", Self: 1}, true},
	} {
		there.setAnswer(tt.says)
		if got := p.displaced(); got != tt.want {
			t.Errorf("at its address there is %s, and a peer is displaced: %v, want %v", name, got, tt.want)
		}
	}
	p.cfg.Self = "127.0.0.1:1"
	if p.displaced() {
		t.Error("nobody answers at its address, and a peer is displaced")
	}
}

// TestWhoIsAskedBeforeAStart: a peer asks all members of the list and those before them, but not itself. One
// with a later view keeps it from starting.
func TestWhoIsAskedBeforeAStart(t *testing.T) {
	other, former, self := newAnswering(t), newAnswering(t), newAnswering(t)
	p := &Peer{cfg: Config{Cluster: "c"}, self: 1, members: Members{
		Epoch: 5, Addrs: map[machine.NodeID]string{1: self.addr, 2: other.addr}, Was: map[machine.NodeID]string{1: self.addr, 3: former.addr},
	}}
	was := terms{Cluster: "c", Epoch: 4, Active: 4, Members: p.members.Was}
	beyond := terms{Cluster: "c", Epoch: 6, Active: 6}
	for name, tt := range map[string]struct {
		other, former, self any
		says                string
	}{
		"all are where the list says":      {was, was, was, ""},
		"a member is beyond it":            {beyond, was, was, "peer 2 at " + other.addr + " is in epoch 6, and the list of this one is of epoch 5: start it with the newest list"},
		"a former one is beyond it":        {was, beyond, was, "peer 3 at " + former.addr + " is in epoch 6, and the list of this one is of epoch 5: start it with the newest list"},
		"one of another cluster is beyond": {terms{Cluster: "d", Epoch: 6, Active: 6}, was, was, ""},
		"one says junk":                    {"junk", was, was, ""},
		"its own address is another's":     {was, was, beyond, ""},
	} {
		other.setAnswer(tt.other)
		former.setAnswer(tt.former)
		self.setAnswer(tt.self)
		if err := p.askEpoch(t.Context()); (err == nil) != (tt.says == "") || err != nil && !strings.HasPrefix(err.Error(), tt.says) {
			t.Errorf("%s: the peer says %v, want %q", name, err, tt.says)
		}
		if o, f, s := other.asked.Load(), former.asked.Load(), self.asked.Load(); o != 1 || f != 1 || s != 0 {
			t.Errorf("%s: members are asked %d times, those before them %d, and the peer itself %d", name, o, f, s)
		}
	}
	p.cfg.fresh = true
	other.setAnswer(beyond)
	if err := p.askEpoch(t.Context()); err != nil || other.asked.Load() != 0 {
		t.Errorf("a cluster that has never run is asked: %v", err)
	}
}

// TestWhatAComparisonFinds: another peer's terms are compared with this one's. If they agree, the words of a
// refusal count.
func TestWhatAComparisonFinds(t *testing.T) {
	there := newAnswering(t)
	p := &Peer{
		cfg: Config{Cluster: "c", TMax: time.Minute, Epsilon: time.Second, Replicas: 3, Clock: new(clock.Fake), Logger: slog.New(slog.DiscardHandler)}, self: 1,
		members: Members{Epoch: 5, Addrs: map[machine.NodeID]string{1: "a:1", 2: there.addr, 3: "127.0.0.1:1"}},
		health:  health{heard: map[machine.NodeID]heard{}},
	}
	p.ctx, p.cancel = context.WithCancelCause(t.Context())
	same := p.terms()
	same.Self, same.Life = 2, 9
	with := func(f func(*terms)) terms { o := same; f(&o); return o }
	refusal, unknown := errors.New("it was refused"), fmt.Errorf("refused: %w", peer.ErrUnknownMember)
	for name, tt := range map[string]struct {
		id     machine.NodeID
		says   any
		reason error
		want   string // "" for nothing
	}{
		"they agree":                        {2, same, nil, ""},
		"they agree, and it was refused":    {2, same, refusal, ""},
		"they agree, and it is not known":   {2, same, unknown, "refused: "},
		"another t_max":                     {2, with(func(o *terms) { o.TMax = time.Hour }), nil, "the peer at " + there.addr + " disagrees: t_max is 1m0s here and 1h0m0s there"},
		"another t_max, and it was refused": {2, with(func(o *terms) { o.TMax = time.Hour }), refusal, "the peer at " + there.addr + " disagrees: t_max"},
		"another index":                     {2, with(func(o *terms) { o.Self = 4 }), nil, "the peer at " + there.addr + " has index 4, and index 2 in the list of this one (epoch 5: "},
		"another index of another cluster":  {2, with(func(o *terms) { o.Self, o.Cluster = 4, "d" }), nil, "the peer at " + there.addr + ` is of cluster "d", this one of "c"`},
		"junk":                              {2, "junk", nil, ""},
		"junk, and it was refused":          {2, "junk", refusal, "it was refused"},
		"nobody answers":                    {3, "", nil, ""},
		"nobody answers, and it refuses":    {3, "", refusal, "it was refused"},
		"no member":                         {4, "", refusal, ""},
	} {
		for _, before := range []error{nil, errors.New("what was the matter before")} {
			p.troubles = map[machine.NodeID]error{}
			if before != nil {
				p.troubles[tt.id] = before
			}
			there.setAnswer(tt.says)
			p.compare(tt.id, tt.reason)
			got := ""
			if err := p.troubles[tt.id]; err != nil {
				got = err.Error()
			}
			want := tt.want
			if name == "no member" && before != nil {
				want = before.Error()
			}
			if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
				t.Errorf("%s (before: %v): there is noted %q, want %q", name, before, got, want)
			}
		}
	}
}

// TestWhatAPeerTellsOfItself: terms and status have the epoch of the list, and besides that of the view in which
// the peer votes.
func TestWhatAPeerTellsOfItself(t *testing.T) {
	now := new(clock.Fake)
	now.Advance(time.Hour)
	p := &Peer{
		cfg:  Config{Cluster: "c", Self: "a:1", TMax: time.Minute, Epsilon: time.Second, Replicas: 3, Clock: now, Wall: func() time.Time { return time.Unix(1e9, 0) }},
		self: 4, members: Members{Epoch: 6, Addrs: map[machine.NodeID]string{4: "a:1"}, Was: map[machine.NodeID]string{4: "a:1", 5: "b:1"}},
		wishes: wishes{claims: map[uint64]*claim{1: {}, 2: {}}}, health: health{clock: errors.New("nobody vouches for it"), silent: flease.Quarantined{Deadline: now.Now().Add(5 * time.Second)}},
	}
	p.shelf.whole = true
	p.pure.Incarnation = 7
	p.activeEpoch.Store(5)
	if got, want := p.terms(), (terms{
		Cluster: "c", TMax: time.Minute, Epsilon: time.Second, Replicas: 3, Self: 4, Life: 7, Epoch: 6, Active: 5, Members: map[machine.NodeID]string{4: "a:1"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("the terms are %+v, want %+v", got, want)
	}
	var said terms
	if err := json.Unmarshal(p.answer(nil), &said); err != nil || !reflect.DeepEqual(said, p.terms()) {
		t.Errorf("the asker is told %+v, %v", said, err)
	}
	want := Status{
		Cluster: "c", Self: 4, Addr: "a:1", Epoch: 6, Active: 5, SilentMS: 5000, Claims: 2, TMaxMS: 60_000, EpsilonMS: 1000,
		Peers: []MemberStatus{{Index: 4, Addr: "a:1", Connected: true}}, Clock: "nobody vouches for it",
	}
	if got := p.Status(); !reflect.DeepEqual(got, want) {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
	p.serving, p.clock = true, nil
	want.Serving, want.SilentMS, want.Clock = true, 0, ""
	for range 100 {
		p.renewals.note(punctualityParts, 3)
	}
	p.renewals.note(punctualityParts, 9)
	want.Renewals, want.RenewedAt = 101, [3]float64{4. / punctualityParts, 4. / punctualityParts, 10. / punctualityParts}
	if got := p.Status(); !reflect.DeepEqual(got, want) {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
}

// TestHowLongSomethingIsHeard: a fault of a peer is remembered for twice t_max after it last occurred, and is new
// once. Trouble with the peer's terms comes first.
func TestHowLongSomethingIsHeard(t *testing.T) {
	now := new(clock.Fake)
	p := &Peer{cfg: Config{Clock: now, TMax: time.Minute}, health: health{troubles: map[machine.NodeID]error{}, heard: map[machine.NodeID]heard{}}}
	skew, junk, other := errors.New("skew"), errors.New("junk"), errors.New("other terms")
	is := func(when string, want error) {
		t.Helper()
		if got := p.trouble(2); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s the matter is %v, want %v", when, got, want)
		}
	}
	news := func(when string, err error, want bool) {
		t.Helper()
		if got := p.noteFault(2, err); got != want {
			t.Errorf("%s %v is news: %v, want %v", when, err, got, want)
		}
	}
	is("at first", nil)
	news("at first", skew, true)
	now.Advance(time.Minute)
	news("a minute later", errors.New("skew"), false)
	now.Advance(2*time.Minute - 1)
	is("two minutes after it was heard again", skew)
	now.Advance(1)
	is("a moment later", nil)
	if len(p.heard) > 0 {
		t.Errorf("what is over is remembered: %v", p.heard)
	}
	news("when it was forgotten", skew, true)
	news("then", junk, true)
	is("then", junk)
	if !p.note(2, other) || p.note(2, errors.New("other terms")) {
		t.Error("other terms are news once")
	}
	is("beside its terms", other)
	news("beside its terms", skew, true)
	is("beside its terms", other)
	if p.note(2, nil) {
		t.Error("that nothing is the matter is no news")
	}
	is("when its terms are right", skew)
	if p.trouble(3) != nil {
		t.Error("something is the matter with another")
	}
}
