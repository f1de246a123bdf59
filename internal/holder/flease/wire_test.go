package flease

import (
	"bytes"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// stepsNothing is a machine that records its messages.
type stepsNothing struct{ inputs []machine.Envelope }

func (m *stepsNothing) Step(machine.Now, flease.Input) {}
func (m *stepsNothing) Wake(machine.Now)               {}
func (m *stepsNothing) Receive(_ machine.Now, e machine.Envelope) {
	m.inputs = append(m.inputs, e)
}
func (m *stepsNothing) Ready() machine.Ready[flease.Report] {
	return machine.Ready[flease.Report]{}
}

// TestDropsNonsenseOnly: of several messages of a peer, those that make no sense are dropped. The log
// says so once, and the status of that peer does. All others are stepped as they were sent.
func TestDropsNonsenseOnly(t *testing.T) {
	for _, tapped := range []bool{false, true} {
		var log bytes.Buffer
		cfg := Config{Self: "h:1", Membership: Fixed(Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "h:1"}}), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		cfg, err := cfg.complete()
		if err != nil {
			t.Fatal(err)
		}
		sent := []*flease.Batch{
			{Incarnation: 7, Epoch: 1, Digest: 3, Ops: []flease.Op{{Kind: flease.Read, Ref: 1, Ballot: 1, Name: "x"}, {Kind: flease.Learn, Name: "y", Written: 9}}},
			{Incarnation: 7, Epoch: 2, Ops: []flease.Op{{Kind: flease.AckWrite, Ref: 2, Ballot: 5}}},
		}
		msgs := [][]byte{{0xff}}
		for _, b := range sent {
			data, err := b.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			msgs = append(msgs, data, nil, data[:len(data)-1], []byte{0xff})
		}
		p := &Peer{cfg: cfg, self: 1, health: health{heard: map[machine.NodeID]heard{}}}
		if tapped {
			p.cfg.tap = func(sending bool, forward func()) {
				if sending {
					t.Error("what was received is tapped as if it were sent")
				}
				forward()
			}
		}
		m := &stepsNothing{}
		p.driver = driver.Start(driver.Config[flease.Input, flease.Report]{
			Machine: m, Now: cfg.clocks, Send: func([]machine.Envelope) {}, Outcome: func([]flease.Report) {}, Fail: func(err error) { t.Error(err) },
		})
		p.deliver(2, msgs)
		p.deliver(2, nil)
		p.driver.Do(func() {})
		p.driver.Stop()
		want := []machine.Envelope{{From: 2, To: 1, Body: sent[0]}, {From: 2, To: 1, Body: sent[1]}}
		if !reflect.DeepEqual(m.inputs, want) {
			t.Errorf("stepped with %+v, want %+v", m.inputs, want)
		}
		if said := log.String(); !strings.Contains(said, "a message was dropped") || !strings.Contains(said, "peer=2") || !strings.Contains(said, "bad batch") {
			t.Errorf("the log says %q, want that a message of peer 2 was dropped, and why", said)
		}
		if err := p.heard[2].err; err == nil || !strings.Contains(err.Error(), "peer 2 sends messages that this one does not understand") || len(p.heard) != 1 {
			t.Errorf("heard is %v, want that peer 2 sends nonsense", p.heard)
		}
	}
}

// A batch is used again after its step, with nothing left in it, unless it may come once more.
func TestBatchesAreEmptiedForTheNext(t *testing.T) {
	pure, err := flease.Config{
		Self: 1, Incarnation: 5, View: flease.View{Epoch: 1, Members: []machine.NodeID{1}}, TMax: 10 * time.Second, Epsilon: 20 * time.Millisecond,
	}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	m, err := flease.New(pure)
	if err != nil {
		t.Fatal(err)
	}
	for _, tapped := range []bool{false, true} {
		p := &Peer{machine: m}
		if tapped {
			p.cfg.tap = func(_ bool, forward func()) { forward() }
		}
		b := &flease.Batch{Incarnation: 7, Epoch: 1, Digest: 3, Ops: []flease.Op{{Kind: flease.Learn, Name: "y", Written: 9}}}
		stepped{m, p}.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: b})
		if empty := b.Incarnation == 0 && b.Epoch == 0 && len(b.Ops) == 0; empty == tapped {
			t.Errorf("with a tap: %v, behind its step a batch is %+v", tapped, b)
		}
	}
}

// Before there is a link, messages are lost as on any network.
func TestSendsNothingBeforeTheLink(t *testing.T) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("what is sent before there is a link panics: %v", r)
		}
	}()
	p := new(Peer)
	p.cfg.tap = func(bool, func()) { t.Error("something is sent") }
	p.send([]machine.Envelope{{From: 1, To: 2, Body: &flease.Batch{Incarnation: 1}}})
}

// A batch is on the wire as it was sent, though its memory is used again at once.
func TestSendsBatchesAsTheyWere(t *testing.T) {
	pure, err := flease.Config{
		Self: 1, Incarnation: 5, View: flease.View{Epoch: 1, Members: []machine.NodeID{1}}, TMax: 10 * time.Second, Epsilon: 20 * time.Millisecond,
	}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	m, err := flease.New(pure)
	if err != nil {
		t.Fatal(err)
	}
	listeners, addrs := make([]net.Listener, 2), map[machine.NodeID]string{}
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addrs[machine.NodeID(i+1)] = listeners[i].Addr().String()
	}
	arrived, up := make(chan []byte, 2), make(chan struct{}, 1)
	var transports [2]*peer.Transport
	for i := range transports {
		transports[i], err = peer.New(peer.Config{
			Self: machine.NodeID(i + 1), ClusterID: 7, Listener: listeners[i], Peers: addrs, Logger: slog.New(slog.DiscardHandler),
			Deliver: func(_ machine.NodeID, msgs [][]byte) {
				for _, msg := range msgs {
					arrived <- bytes.Clone(msg)
				}
			},
			Up: func(id machine.NodeID) {
				if id == 2 {
					up <- struct{}{}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer transports[i].Close()
	}
	p := &Peer{machine: m}
	p.linked.Store(transports[0])
	<-up
	b := &flease.Batch{Incarnation: 7, Epoch: 1, Digest: 3, Ops: []flease.Op{{Kind: flease.Learn, Name: "y", Written: 9}}}
	want, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	p.send([]machine.Envelope{{From: 1, To: 2, Body: b}})
	if got := <-arrived; !bytes.Equal(got, want) {
		t.Errorf("arrived is %x, want %x", got, want)
	}
	if len(b.Ops) > 0 || b.Incarnation != 0 {
		t.Errorf("behind its sending a batch has %+v in it, want nothing", b)
	}
}
