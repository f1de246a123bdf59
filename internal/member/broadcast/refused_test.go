package broadcast

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// written is a log that a test can look at while it is written.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// A message that makes no sense is counted, and the log describes it once.
func TestImpossibleMessages(t *testing.T) {
	strange := abcast.Base{Order: abcast.State{Group: abcast.Group{First: 1, Members: []abcast.Member{{ID: 3}}}, Instance: 9, Position: 9, Clients: clientsDefault}, Position: 9}
	request := asynclease.Request{Node: 3, Life: 1, Seq: 1}
	for name, tc := range map[string]struct {
		msg  []byte
		want string
	}{
		"damaged":               {[]byte{kindEstimate, 1}, "is damaged"},
		"of no kind":            {[]byte{255}, "of kind 255"},
		"a record":              {encode(fastct.Gone{Below: 7}), "a fastct.Gone is not a message of fastct"},
		"an impossible round":   {encode(fastct.Call{CN: 1, Round: 1 << 61}), "instance 1 in round 2305843009213693952"},
		"adopted too late":      {encode(fastct.Estimate{CN: 1, Round: 3, TS: 3}), "adopted in round 3"},
		"a state":               {encode(abcast.Transfer{Base: base}), "of a group that remembers 12 clients"},
		"another group's state": {encode(abcast.Transfer{Base: strange}), "with members [3] from instance 1 on, and here they are [1 2 3] from 1 on"},
		"another's request":     {encode(asynclease.Lease{Request: request, Interval: asynclease.Interval{First: 1, Last: 2}}), "about request 3.1.1"},
		"within another epoch":  {encode(abcast.In{Epoch: 5, Body: asynclease.Lease{Request: request}}), "request 3.1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var log written
			n, err := Start(Config{
				ID: 1, Group: 9, Members: map[machine.NodeID]string{1: ln.Addr().String(), 2: "127.0.0.1:1", 3: "127.0.0.1:1"}, Listener: ln,
				Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			n.acquaint(t, 2, 3)
			for range 3 {
				n.deliver(2, [][]byte{sealedAs(lifeOf(2), tc.msg)})
			}
			for end := time.Now().Add(time.Minute); n.Stats().Refused[2] < 3; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("got %v refused, want 3 of member 2", n.Stats().Refused)
				}
			}
			said := log.String()
			if strings.Count(said, "a message was dropped") != 1 || !strings.Contains(said, "from=2") || !strings.Contains(said, tc.want) {
				t.Errorf("want one line about member 2 that says %q, got:\n%s", tc.want, said)
			}
		})
	}
}

func TestRefusedIsSaidNowAndThen(t *testing.T) {
	var r refused
	at := machine.Mono(0)
	for i, want := range []bool{true, false, false, true, false} {
		if total, say := r.add(2, 2, at); say != want || total != uint64(2*i+2) {
			t.Errorf("after %v: %d, and say it: %v, want %d and %v", time.Duration(at), total, say, 2*i+2, want)
		}
		at = at.Add(refusedPause / 3)
	}
	if _, say := r.add(3, 1, at); !say {
		t.Error("another member's were not told")
	}
}

// A later line of the log counts the messages that were dropped since the first.
func TestTheLogCountsWhatWasRefused(t *testing.T) {
	var log written
	n := &Node{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	n.refused.add(2, 6, clock.Now().Add(-2*refusedPause))
	n.logDropped(2, 1, errors.New("odd"))
	if said := log.String(); !strings.Contains(said, "dropped=7") {
		t.Errorf("after six and one more the log says %q, want that seven were dropped", said)
	}
}

// Of a request that is another's no message makes sense, nor one of a state that cannot be.
func TestNoMessageIsAboutAnothersRequest(t *testing.T) {
	theirs, ours := asynclease.Request{Node: 3, Life: 1, Seq: 1}, asynclease.Request{Node: 1, Life: 1, Seq: 1}
	for _, body := range []any{
		asynclease.Lease{Request: theirs, Interval: asynclease.Interval{First: 1, Last: 2}},
		asynclease.Ack{Request: theirs}, asynclease.Nack{Request: theirs}, asynclease.Give{Request: theirs, From: 1},
		asynclease.Lease{Request: ours, Interval: asynclease.Interval{First: 1, Last: 2}}, asynclease.Give{Request: ours, From: 1},
		abcast.Transfer{Base: base},
	} {
		for _, b := range []any{body, abcast.In{Epoch: 2, Body: body}} {
			if impossible(machine.Envelope{From: 2, To: 1, Body: b}, clientsDefault) == nil {
				t.Errorf("%+v from member 2 is taken in", b)
			}
		}
	}
	for _, body := range []any{asynclease.Ack{Request: ours}, asynclease.Nack{Request: ours}, fastct.Nack{}} {
		if err := impossible(machine.Envelope{From: 2, To: 1, Body: body}, clientsDefault); err != nil {
			t.Errorf("%+v from member 2: %v", body, err)
		}
	}
}

// Refusals of the order become this package's errors.
func TestRefusals(t *testing.T) {
	n := minority(t)
	for i, tt := range []struct{ by, want error }{
		{abcast.ErrBusy, ErrBusy},
		{abcast.ErrTooLarge, ErrTooLarge},
		{abcast.ErrClient, ErrClient},
		{abcast.ErrOutside, ErrNotMember},
		{abcast.ErrSequence, ErrSequence},
		{abcast.ErrChange, ErrChange},
	} {
		client := abcast.NewClient(0, uint64(i)+1)
		w := &waiter{outcome: make(chan outcome, 1)}
		n.mu.Lock()
		n.waiting[key{client, 1}] = []*waiter{w}
		n.mu.Unlock()
		n.handle([]abcast.Outcome{abcast.Refused{Client: client, Seq: 1, Err: tt.by}})
		if got := patience.Within(t, w.outcome, "the call is answered"); !errors.Is(got.err, tt.want) {
			t.Errorf("what the order refuses because of %q: got %v, want %v", tt.by, got.err, tt.want)
		}
	}
}

// One other may be mistaken, or another process may be at its address: a member ends as removed
// when most of the others say so.
func TestRemovedByTheWordOfMost(t *testing.T) {
	for _, tt := range []struct {
		members int
		say     []machine.NodeID
		let     machine.NodeID // in again, after the first of them
		want    bool
	}{
		{2, []machine.NodeID{2}, 0, true},
		{3, []machine.NodeID{2}, 0, false},
		{3, []machine.NodeID{2, 2}, 0, false},
		{3, []machine.NodeID{2, 3}, 0, true},
		{3, []machine.NodeID{2, 3}, 2, false},
		{3, []machine.NodeID{2, 9}, 0, false},
		{5, []machine.NodeID{2, 3}, 0, false},
		{5, []machine.NodeID{2, 3, 5}, 0, true},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		members := map[machine.NodeID]string{1: ln.Addr().String()}
		for id := 2; id <= tt.members; id++ {
			members[machine.NodeID(id)] = "127.0.0.1:1"
		}
		n, err := Start(Config{ID: 1, Group: 9, Members: members, Listener: ln, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for i, by := range tt.say {
			n.noteRemovalClaim(by)
			if i == 0 {
				n.noteAccepted(tt.let)
			}
		}
		if ended := errors.Is(n.reason(), ErrRemoved); ended != tt.want {
			t.Errorf("of %d members %v say that this one was removed (%d has let it in again): it ends %v, want %v", tt.members, tt.say, tt.let, ended, tt.want)
		}
		n.Close()
	}
}
