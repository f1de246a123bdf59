package broadcast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/driver"
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
)

// Position is a place in the order, from 1.
type Position uint64

// Message is a message at its place.
type Message struct {
	Position Position
	Client   machine.ID // who broadcast it; of a node itself, a random ID for each start
	Seq      uint64     // the client's number
	Payload  []byte     // not to be changed
}

// Node is a member. Its methods may be called by many goroutines.
type Node struct {
	cfg     Config
	journal *journal
	machine *abcast.Machine // of the stepping goroutine
	driver  *driver.Driver
	peers   *peer.Transport // nil if there is one member
	client  machine.ID
	seq     uint64 // of the stepping goroutine

	mu      sync.Mutex
	base    Position      // of the message before the first of log
	state   []byte        // after base
	log     []Message     // delivered and not trimmed
	more    chan struct{} // closed when log has grown
	waiting map[key][]chan outcome
	leader  machine.NodeID
	err     error // why nothing goes on; ErrClosed after Close

	ended   chan struct{} // closed with err
	closing sync.Once
}

type key struct {
	client machine.ID
	seq    uint64
}

type outcome struct {
	position Position
	err      error
}

// Start makes a node of a member, and returns when it takes part.
func Start(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	j, records, err := openJournal(cfg)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, journal: j, more: make(chan struct{}), ended: make(chan struct{}), waiting: map[key][]chan outcome{}}
	rand.Read(n.client[:]) // never fails
	if n.machine, err = abcast.New(cfg.machine(j.life), records); err != nil {
		return nil, errors.Join(fmt.Errorf("broadcast: %s: %w", cfg.Dir, err), j.log.Close())
	}
	base := n.machine.Base()
	n.base, n.state = Position(base.Position), base.App
	messages, _ := n.machine.Messages(base.Position, int(n.machine.Position()-base.Position))
	for _, d := range messages {
		n.log = append(n.log, message(d))
	}
	var ready sync.WaitGroup // messages may arrive before there is a driver
	ready.Add(1)
	if len(cfg.Members) > 1 {
		n.peers, err = peer.New(peer.Config{
			Self: cfg.ID, ClusterID: cfg.Group, Listener: cfg.Listener, Peers: cfg.Members, TLS: cfg.TLS, Logger: cfg.Logger,
			Deliver: func(from machine.NodeID, msgs [][]byte) { ready.Wait(); n.deliver(from, msgs) },
			Down: func(id machine.NodeID, reason error) {
				ready.Wait()
				cfg.Logger.Info("broadcast: a member's process has ended", "member", id, "reason", reason)
				n.driver.Step(fastct.Suspect{Node: id, Suspected: true})
			},
		})
		if err != nil {
			return nil, errors.Join(err, j.log.Close())
		}
	}
	n.driver = driver.Start(driver.Config{
		Machine: compacting{n.machine}, Now: func() machine.Now { return machine.Now{Mono: clock.Now()} },
		Send: n.send, Persist: j.write, Outcome: n.outcomes,
		Fail: func(err error) { n.fail(fmt.Errorf("broadcast: the log: %w", err)) },
	})
	ready.Done()
	return n, nil
}

// compacting writes the log anew after a Trim.
type compacting struct{ *abcast.Machine }

func (m compacting) Ready() machine.Ready {
	rd := m.Machine.Ready()
	for _, p := range rd.Persists {
		if _, ok := p.Record.(abcast.Base); ok {
			// All that the records of this turn say is in it.
			rd.Persists = append(rd.Persists, machine.Persist{Record: rewrite{m.Records()}})
			break
		}
	}
	return rd
}

func message(d abcast.Delivered) Message {
	return Message{Position: Position(d.Position), Client: d.Client, Seq: d.Seq, Payload: d.Payload}
}

// send is driver.Config.Send.
func (n *Node) send(envelopes []machine.Envelope) {
	if n.peers == nil {
		return
	}
	for _, e := range envelopes {
		kind, payload := encode(e.Body)
		n.peers.Send(e.To, append([]byte{kind}, payload...))
	}
}

// deliver takes in messages of another member.
func (n *Node) deliver(from machine.NodeID, msgs [][]byte) {
	var inputs []any
	for _, msg := range msgs {
		if len(msg) == 0 {
			continue
		}
		msg = append([]byte(nil), msg...) // it is valid during the call only
		body, err := decode(msg[0], msg[1:])
		if err != nil {
			n.cfg.Logger.Warn("broadcast: a message was dropped", "from", from, "error", err)
			continue
		}
		inputs = append(inputs, machine.Envelope{From: from, To: n.cfg.ID, Body: body})
	}
	n.driver.Offer(inputs...)
}

// outcomes is driver.Config.Outcome.
func (n *Node) outcomes(outs []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := false
	for _, out := range outs {
		switch o := out.(type) {
		case abcast.Delivered:
			n.log = append(n.log, message(o))
			n.answer(key{o.Client, o.Seq}, outcome{position: Position(o.Position)})
			grown = true
		case abcast.Repeated:
			n.answer(key{o.Client, o.Seq}, outcome{})
		case abcast.Refused:
			n.answer(key{o.Client, o.Seq}, outcome{err: refusal(o.Err)})
		case abcast.Installed:
			n.base, n.state, n.log = Position(o.Position), o.App, nil
			n.cfg.Logger.Warn("broadcast: this member was behind, and goes on from another one's state", "position", o.Position)
			grown = true
		case fastct.Leader:
			n.leader = o.Node
		}
	}
	if grown && n.err == nil {
		close(n.more)
		n.more = make(chan struct{})
	}
}

func refusal(err error) error {
	switch {
	case errors.Is(err, abcast.ErrBusy):
		return ErrBusy
	case errors.Is(err, abcast.ErrTooLarge):
		return ErrTooLarge
	}
	return err
}

func (n *Node) answer(k key, o outcome) {
	for _, c := range n.waiting[k] {
		c <- o
	}
	delete(n.waiting, k)
}

// Leader is the member that this one trusts to lead; 0 at first.
func (n *Node) Leader() machine.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader
}

// fail ends all that waits.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = err
	for _, list := range n.waiting {
		for _, c := range list {
			c <- outcome{err: fmt.Errorf("%w: %w", ErrUnknown, err)}
		}
	}
	n.waiting = nil
	close(n.more)
	close(n.ended)
}

// Close ends the node. What is under way gets ErrUnknown.
func (n *Node) Close() error {
	var err error
	n.closing.Do(func() {
		n.fail(ErrClosed)
		n.driver.Stop()
		switch {
		case n.peers != nil:
			err = n.peers.Close()
		case n.cfg.Listener != nil:
			err = n.cfg.Listener.Close()
		}
		err = errors.Join(err, n.journal.log.Close())
	})
	return err
}

// wait waits for the outcome of a broadcast.
func (n *Node) wait(ctx context.Context, c chan outcome) (Position, error) {
	select {
	case o := <-c:
		return o.position, o.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	case <-n.ended:
		select {
		case o := <-c:
			return o.position, o.err
		default: // it waited to be stepped, maybe for ever
			return 0, fmt.Errorf("%w: %w", ErrUnknown, n.reason())
		}
	}
}

func (n *Node) reason() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
