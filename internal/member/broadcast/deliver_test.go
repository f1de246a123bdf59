package broadcast

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// listening is a machine that keeps what it receives.
type listening struct{ heard chan machine.Envelope }

func (listening) Step(machine.Now, abcast.Input)                {}
func (listening) Wake(machine.Now)                              {}
func (l listening) Receive(now machine.Now, e machine.Envelope) { l.heard <- e }
func (listening) Ready() (rd machine.Ready[abcast.Outcome])     { rd.Alarm = machine.Never; return rd }
func (l listening) driven() *driver.Driver[abcast.Input, abcast.Outcome] {
	return driver.Start(driver.Config[abcast.Input, abcast.Outcome]{
		Machine: l, Now: ticking(), Send: func([]machine.Envelope) {}, Outcome: func([]abcast.Outcome) {},
	})
}

// Messages that make no sense are counted, and keep no others from the machine. The network's memory is
// used again behind the call.
func TestWhatIsDelivered(t *testing.T) {
	l := listening{make(chan machine.Envelope, 9)}
	n := &Node{cfg: Config{ID: 1, Logger: slog.New(slog.DiscardHandler)}, driver: l.driven()}
	defer n.driver.Stop()
	submit := abcast.Submit{Messages: []abcast.Message{{Client: machine.ID{1}, Seq: 2, Payload: []byte("payload")}}}
	msgs := [][]byte{
		{}, sealedAs(7, nil), sealedAs(7, encode(submit)), sealedAs(7, []byte{255}), sealedAs(7, []byte{kindEstimate, 1}),
		sealedAs(7, encode(abcast.Transfer{Base: base})), sealedAs(8, encode(want{6})),
	}
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("messages of no length end the member: %v", r)
			}
		}()
		n.deliver(2, msgs)
	}()
	for _, msg := range msgs {
		clear(msg)
	}
	for _, want := range []heard{{7, submit}, {8, want{6}}} {
		select {
		case e := <-l.heard:
			if !reflect.DeepEqual(e, machine.Envelope{From: 2, To: 1, Body: want}) {
				t.Errorf("the machine hears %+v, want %+v of member 2", e, want)
			}
		case <-patience.Soon(t).Done():
			t.Fatalf("the machine does not hear %+v", want)
		}
	}
	if got := n.refused.counts()[2]; got != 3 {
		t.Errorf("of seven messages %d are counted as nonsense, want 3 besides the two that have nothing in them", got)
	}
}

// A member that can be reached is introduced to at once, and by having taken the connection it takes back
// its word that this one was removed.
func TestAMemberThatCanBeReached(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n := minorityOf(t, map[machine.NodeID]string{2: ln.Addr().String(), 3: "127.0.0.1:1"}, log, func(c *Config) { c.Timeout = time.Hour })
	n.mu.Lock()
	n.outBy = map[machine.NodeID]bool{2: true, 3: true}
	n.mu.Unlock()
	var introduced atomic.Bool
	two, err := peer.New(peer.Config{
		Self: 2, ClusterID: n.cfg.cluster(), Listener: ln, Peers: map[machine.NodeID]string{1: n.cfg.Members[1]}, Logger: log,
		Deliver: func(_ machine.NodeID, msgs [][]byte) {
			for _, msg := range msgs {
				introduced.Store(introduced.Load() || msg[lifeBytes] == kindIntroduction)
			}
		},
		Stream: func(machine.NodeID, []byte, io.Reader) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	patience.Until(t, "member 2, which can be reached now, hears an introduction", introduced.Load)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outBy[2] || !n.outBy[3] {
		t.Errorf("members 2 and 3 said that this one was removed, and 2 has taken its connection: %v say so", n.outBy)
	}
}

// A caller that gives up at the moment at which its message is ordered hears of that.
func TestAnOutcomeIsNotLost(t *testing.T) {
	n := minority(t)
	ctx, cancel := context.WithCancel(patience.Soon(t))
	cancel()
	why := errors.New("impossible")
	for _, want := range []outcome{{position: 7}, {err: why}} {
		for range 50 { // of the two, either may be seen first
			w := &waiter{outcome: make(chan outcome, 1)}
			w.outcome <- want
			if position, err := n.wait(ctx, w); position != want.position || err != want.err {
				t.Fatalf("a caller that has given up, and whose message has the outcome %+v, gets %d, %v", want, position, err)
			}
		}
	}
}

// Messages from position 0 on are all messages: there is none at 0.
func TestDeliveryFromNothingIsFromTheFirst(t *testing.T) {
	n, _ := aloneOn(t, 2)
	for m, err := range n.Deliver(patience.Soon(t), 0) {
		if err != nil || m.Position != 1 {
			t.Errorf("from 0 on the first message is at %d, %v; want 1", m.Position, err)
		}
		break
	}
}
