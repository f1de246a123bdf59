package flease

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// telling returns the address of a peer that answers every question with this.
func telling(t *testing.T, says func() []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	tr, err := peer.New(peer.Config{
		Self: 2, Listener: l, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(machine.NodeID, [][]byte) {}, Answer: func([]byte) []byte { return says() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return addr
}

// comparing returns peer 1 of a list, without a machine.
func comparing(addrs map[machine.NodeID]string) *Peer {
	p := &Peer{
		cfg:  Config{Cluster: "c", TMax: time.Minute, Epsilon: time.Second, Logger: slog.New(slog.DiscardHandler)},
		self: 1, members: Members{Epoch: 5, Addrs: addrs}, health: health{troubles: map[machine.NodeID]error{}, heard: map[machine.NodeID]heard{}},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// TestWhatIsTheMatterWithAPeer: a peer's terms, and its reason for a refusal, show the trouble with it. Trouble that is
// over is forgotten. If a peer does not answer, the reason for the question stays.
func TestWhatIsTheMatterWithAPeer(t *testing.T) {
	unknown, other := errors.Join(peer.ErrUnknownMember, errors.New("it does not know us")), errors.New("it does not want us")
	var says []byte
	addr := telling(t, func() []byte { return says })
	p := comparing(map[machine.NodeID]string{1: "a:1", 2: addr})
	with := func(f func(*terms)) []byte {
		same := p.terms()
		same.Self = 2
		f(&same)
		b, err := json.Marshal(same)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, tt := range map[string]struct {
		says   []byte
		reason error
		want   string // in the words of the trouble; there is none if empty
	}{
		"it agrees":                                {says: with(func(*terms) {})},
		"it agrees, and does not know us":          {with(func(*terms) {}), unknown, "it does not know us"},
		"it agrees, and did not want us":           {says: with(func(*terms) {}), reason: other},
		"it has another index":                     {says: with(func(o *terms) { o.Self = 3 }), want: "has index 3, and index 2 in the list of this one"},
		"it has another index, of another cluster": {says: with(func(o *terms) { o.Self, o.Cluster = 3, "d" }), want: `is of cluster "d", this one of "c"`},
		"it is of another cluster":                 {says: with(func(o *terms) { o.Cluster = "d" }), want: `is of cluster "d", this one of "c"`},
		"it disagrees":                             {says: with(func(o *terms) { o.TMax = time.Hour }), want: "t_max is 1m0s here and 1h0m0s there"},
		"it disagrees, and does not know us":       {with(func(o *terms) { o.TMax = time.Hour }), unknown, "t_max is 1m0s here and 1h0m0s there"},
		"it has another list of the same epoch":    {says: with(func(o *terms) { o.Members = map[machine.NodeID]string{1: "a:1"} }), want: "the list of members is epoch 5"},
		"it has another list of another epoch":     {says: with(func(o *terms) { o.Epoch, o.Members = 6, nil })},
		"it makes no sense":                        {says: []byte("?")},
		"it makes no sense, and did not want us":   {[]byte("?"), other, "it does not want us"},
	} {
		says = tt.says
		p.troubles = map[machine.NodeID]error{2: errors.New("what was the matter before"), 3: other}
		p.compare(2, tt.reason)
		err := p.troubles[2]
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) || p.troubles[3] != other {
			t.Errorf("%s: the matter is %v, want %q; of another peer it is %v", name, err, tt.want, p.troubles[3])
		}
	}
	for name, tt := range map[string]struct {
		cluster string
		lives   []uint32
	}{"ours": {"c", []uint32{77}}, "another": {"d", nil}} {
		p.shelf.lives = nil
		says = with(func(o *terms) { o.Cluster, o.Life = tt.cluster, 77 })
		p.compare(2, nil)
		if got := p.shelf.lives; !slices.Equal(got[2], tt.lives) || len(got) != len(tt.lives) {
			t.Errorf("a peer of the cluster %q that lives its life 77 is compared with: the lives %v are noted, want %v of peer 2", name, got, tt.lives)
		}
	}
	p.troubles = map[machine.NodeID]error{}
	says = with(func(o *terms) { o.TMax = time.Hour })
	if p.compare(3, other); len(p.troubles) != 0 {
		t.Errorf("of a peer that is no member there is noted %v", p.troubles)
	}
	p.cancel(errors.New("it ended"))
	if p.compare(2, other); len(p.troubles) != 0 {
		t.Errorf("by a peer that has ended there is noted %v", p.troubles)
	}
}

// dialed records the addresses that are dialed, and connects to none.
type dialed struct {
	mu    sync.Mutex
	addrs []string
}

func (d *dialed) dial(_ context.Context, addr string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs = append(d.addrs, addr)
	return nil, errors.New("nobody is there")
}

// since returns the addresses that were dialed since the call before, in order.
func (d *dialed) since() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	addrs := d.addrs
	d.addrs = nil
	slices.Sort(addrs)
	return addrs
}

// TestWhichPeersAreAsked: a peer is asked for its terms after a new stream, a refusal or a disagreement, and no other peer
// is. A peer with trouble is asked again, unless it does not know this one. Before a start all other members are asked,
// and those of the epoch before, too.
func TestWhichPeersAreAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var d dialed
		p := comparing(map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"})
		p.cfg.Dial = d.dial
		asked := func(what string, want ...string) {
			t.Helper()
			if got := d.since(); !slices.Equal(got, want) {
				t.Errorf("%s: %q are asked, want %q", what, got, want)
			}
		}
		p.up(3)
		asked("there is a stream to 3", "c:1")
		p.refused(2, errors.New("no"))
		asked("2 refuses us", "b:1")
		p.handleNews(flease.Alarm{Kind: flease.Disagreement, Peer: 2})
		asked("the machine disagrees with 2", "b:1")
		p.handleNews(flease.Alarm{Kind: flease.Disagreement, Peer: 9})
		asked("the machine disagrees with nobody that is a member")
		again := make(chan struct{})
		p.troubles = map[machine.NodeID]error{2: errors.New("it disagrees"), 3: peer.ErrUnknownMember}
		go func() { defer close(again); p.compareAgain() }()
		time.Sleep(10*time.Second - 1)
		asked("just before it is time to ask again")
		time.Sleep(time.Nanosecond)
		asked("it is time to ask again", "b:1")
		if p.troubles[2] != nil || p.troubles[3] == nil {
			t.Errorf("2 does not say what is the matter any more, and 3 does not know us: %v", p.troubles)
		}
		p.members.Was = map[machine.NodeID]string{1: "a:1", 2: "b:1", 4: "d:1"}
		if err := p.askEpoch(t.Context()); err != nil {
			t.Errorf("nobody answers before a start: %v", err)
		}
		asked("before a start", "b:1", "c:1", "d:1")
		p.cfg.fresh = true
		if err := p.askEpoch(t.Context()); err != nil {
			t.Error(err)
		}
		asked("no peer has ever run")
		p.cancel(errors.New("it ended"))
		<-again
	})
}

// TestHowLongWhatIsHeardCounts: a fault counts from its last occurrence. It is new if it differs from the one before, or if
// that was forgotten.
func TestHowLongWhatIsHeardCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := scriptedPeer(t, &scripted{}, time.Second)
		defer p.driver.Stop()
		p.heard = map[machine.NodeID]heard{}
		clk := p.cfg.Clock.(interface{ Advance(time.Duration) })
		skew, junk := errors.New("its clock is wrong"), errors.New("it sends junk")
		for i, step := range []struct {
			after time.Duration
			err   error // nil: nothing happens
			news  bool
			known error // afterwards
		}{
			{0, skew, true, skew},
			{p.faultPeriod() - 1, nil, false, skew},
			{0, skew, false, skew},
			{p.faultPeriod() - 1, nil, false, skew},
			{0, junk, true, junk},
			{p.faultPeriod(), nil, false, nil},
			{0, junk, true, junk},
		} {
			clk.Advance(step.after)
			if step.err != nil {
				if news := p.noteFault(2, step.err); news != step.news {
					t.Errorf("step %d: %v is news: %v, want %v", i, step.err, news, step.news)
				}
			}
			p.mu.Lock()
			known := p.trouble(2)
			p.mu.Unlock()
			if known != step.known {
				t.Errorf("step %d: there is known %v, want %v", i, known, step.known)
			}
		}
	})
}
