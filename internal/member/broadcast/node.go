package broadcast

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"

	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Position is a place in the order, from 1.
type Position uint64

// turn is a lock that is held while a disk works: a mutex made of a channel.
type turn chan struct{}

// Lock takes the turn, Unlock gives it back.
func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// Message is a message at its place.
type Message struct {
	Position Position
	Client   machine.ID // the client that broadcast it; a node itself has an ID of its own
	Seq      uint64     // the client's number
	Payload  []byte     // not to be changed
	// Members, of a message that is a change of the members, are those from here on: such a
	// one has no payload, nor has one that belongs to a Barrier. Where a founder listens that
	// no AddMember has named since is as this member's own configuration has it.
	Members map[machine.NodeID]string
}

// Node is a member. Its methods may be called by many goroutines.
type Node struct {
	cfg     Config
	journal *journal
	machine *abcast.Machine // of the stepping goroutine
	self    uint64          // the number of this life
	driver  *driver.Driver[abcast.Input, abcast.Outcome]
	peers   *peer.Transport // nil if there is one member
	sent    counters
	refused refused
	client  machine.ID // of the stepping goroutine, as is seq: the client of Broadcast
	seq     uint64

	storing

	mu sync.Mutex // of what follows
	delivered
	lagging
	company
	transfers map[machine.NodeID]*transfer // to others
	waiting   map[key][]*waiter
	err       error // why nothing goes on; ErrClosed after Close

	ctx     context.Context // ends with err
	cancel  context.CancelFunc
	closing sync.Once
}

// storing is how messages get from memory to the disk.
type storing struct {
	keeping turn // held by the writer of history, and for no longer; before mu
	history *history
	saving  turn           // held by Snapshot
	stir    chan struct{}  // of the keeper
	work    sync.WaitGroup // of the keeper, and of state transfers to others
}

// delivered are the messages that were delivered last, in memory.
type delivered struct {
	ram   Position      // of the message before the first of log: history has it, or it is trimmed
	log   []Message     // delivered and in memory
	bytes int           // of log
	room  sync.Cond     // signaled when bytes has become less, or err is set
	more  chan struct{} // closed when log has grown
}

// lagging is how this member gets messages that it lacks.
type lagging struct {
	lacks  abcast.Lacks   // zero: nothing
	taking bool           // a state transfer from another member is being taken in
	source machine.NodeID // the member whose stream brought something last; 0: none
	tries  int            // how often others were asked since
}

// company is the group as this member knows it.
type company struct {
	leader machine.NodeID
	group  abcast.Group
	joined chan struct{}             // closed once this is a member
	counts chan struct{}             // closed once this member takes part
	known  map[machine.NodeID]uint64 // the number of the life that is listened to, of each other member
	outBy  map[machine.NodeID]bool   // the members that say that this one was removed
}

type key struct {
	client machine.ID
	seq    uint64
}

type outcome struct {
	position Position
	err      error
}

// waiter is a call that waits for what becomes of its message.
type waiter struct {
	key     key // once it is among Node.waiting
	outcome chan outcome
}

// Start makes a node of a member. It returns when the node has read its directory, and runs. It
// does not wait for the others, as Broadcast does, nor for the group to take in a member that
// joins, as Joined does.
func Start(cfg Config) (*Node, error) {
	n, err := start(cfg)
	if err != nil && cfg.Listener != nil {
		cfg.Listener.Close()
	}
	return n, err
}

func start(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Members = maps.Clone(cfg.Members) // the caller's may change
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	j, records, err := openJournal(cfg)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, journal: j, waiting: map[key][]*waiter{}, transfers: map[machine.NodeID]*transfer{},
		storing:   storing{stir: make(chan struct{}, 1), keeping: make(turn, 1), saving: make(turn, 1)},
		delivered: delivered{more: make(chan struct{})},
		company:   company{joined: make(chan struct{}), counts: make(chan struct{}), known: map[machine.NodeID]uint64{}},
	}
	n.room.L = &n.mu
	n.ctx, n.cancel = context.WithCancel(context.Background())
	acquainted := n.acquaintance()
	if n.machine, err = abcast.New(cfg.machine(j.self.N), acquainted.recall(records)); err != nil {
		return nil, errors.Join(fmt.Errorf("broadcast: %s: %w", cfg.Dir, err), j.log.Close())
	}
	n.group = n.machine.Group()
	acquainted.Machine = n.machine
	if acquainted.counts = acquainted.counts || acquainted.need == 0; acquainted.counts {
		close(n.counts)
	}
	if err := cfg.validateListener(len(n.group.Members)); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	if err := n.loadHistory(); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	var ready sync.WaitGroup // messages may arrive before there is a driver
	ready.Add(1)
	if named := slices.Sorted(maps.Keys(cfg.Members)); len(n.group.Members) > 0 && !slices.Equal(named, n.group.IDs()) {
		cfg.Logger.Info("broadcast: the members in the log count, and Config.Members names others", "members", n.group.IDs(), "named", named)
	}
	if n.group.Has(cfg.ID) {
		close(n.joined)
	}
	if cfg.Listener != nil {
		n.peers, err = peer.New(peer.Config{
			Self: cfg.ID, ClusterID: cfg.cluster(), Listener: cfg.Listener, Peers: n.addresses(n.group, false), TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger,
			Deliver: func(from machine.NodeID, msgs [][]byte) { ready.Wait(); n.deliver(from, msgs) },
			Stream: func(from machine.NodeID, header []byte, r io.Reader) error {
				ready.Wait()
				return n.receiveTransfer(from, header, r)
			},
			Up: func(id machine.NodeID) {
				ready.Wait()
				n.noteAccepted(id)
				n.driver.Step(reached{id: id})
			},
			Down: func(id machine.NodeID, reason error) {
				ready.Wait()
				cfg.Logger.Info("broadcast: a member's process has ended", "member", id, "reason", reason)
				n.driver.Step(abcast.Suspect{Node: id, Suspected: true})
			},
			Refused: func(id machine.NodeID, reason error) {
				switch {
				case errors.Is(reason, peer.ErrRemoved):
					n.noteRemovalClaim(id)
				case errors.Is(reason, peer.ErrWrongCluster):
					cfg.Logger.Error("broadcast: a member refuses this one: Group, Clients or Algorithm is another in its configuration, or it runs another version; these have to be the same",
						"member", id, "group", cfg.Group, "clients", cfg.clients())
				}
			},
		})
		if err != nil {
			return nil, errors.Join(err, n.history.close(), j.log.Close())
		}
	}
	n.driver = driver.Start(driver.Config[abcast.Input, abcast.Outcome]{
		Machine: acquainted, Now: ticking(),
		Send: n.send, Persist: j.write, Linger: linger, Hold: true, Outcome: n.handle,
		Fail: func(err error) { n.failDisk(fmt.Errorf("broadcast: %w", err)) },
	})
	ready.Done()
	n.work.Go(n.keep)
	return n, nil
}

// ticking returns a clock that stands still in suspend: nothing here rests on time, and one
// that goes on costs a system call each time that it is read.
func ticking() func() machine.Now {
	began := time.Now()
	return func() machine.Now { return machine.Now{Mono: machine.Mono(time.Since(began)) + 1} }
}

// loadHistory opens the history, and takes from the log the messages behind it.
func (n *Node) loadHistory() (err error) {
	if n.history, err = openHistory(historyDir(n.cfg.Dir), n.cfg.owner(), n.cfg.WAL); err != nil {
		return err
	}
	base := n.machine.Base().Position
	trimmed, has := n.history.bounds()
	at, err := n.newest()
	switch {
	case err != nil:
	case uint64(has) < base:
		err = fmt.Errorf("broadcast: %s ends at position %d, and the log begins behind %d: messages are missing", n.history.dir, has, base)
	case at < trimmed:
		err = fmt.Errorf("broadcast: %s begins behind position %d, and the newest snapshot is of %d: messages are missing", n.history.dir, trimmed, at)
	}
	if err != nil {
		return errors.Join(err, n.history.close())
	}
	n.ram = Position(base)
	messages, _ := n.machine.Messages(base, int(n.machine.Position()-base))
	for _, d := range messages {
		n.remember(message(d))
	}
	return nil
}

// remember adds a message to the log in memory.
func (n *Node) remember(m Message) {
	n.log = append(n.log, m)
	n.bytes += m.size()
}

// acquaintance is what stands between the machine and other members.
func (n *Node) acquaintance() *acquainted {
	self := n.journal.self
	n.self = self.Lives[len(self.Lives)-1].Number
	a := &acquainted{
		self: introduction{Dir: self.Dir, Life: self.N, Lives: self.Lives}, id: n.cfg.ID, need: n.cfg.needed(),
		mark: n.journal.mark.Load, logDropped: n.logDropped, others: n.others,
		notes: map[machine.NodeID]note{}, loose: map[machine.NodeID]bool{}, heard: map[machine.NodeID]uint64{}, known: map[machine.NodeID]uint64{}, met: map[machine.NodeID]noted{},
	}
	if n.cfg.Listener != nil {
		a.every = n.cfg.timeout() / 5
	}
	return a
}

// others are the members that this one has connections with. Of the stepping goroutine.
func (n *Node) others() (ids []machine.NodeID) {
	for id := range n.addresses(n.machine.Group(), false) {
		if id != n.cfg.ID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func message(d abcast.Delivered) Message {
	m := Message{Position: Position(d.Position), Client: d.Client, Seq: d.Seq, Payload: d.Payload}
	if d.Change {
		m.Payload, m.Members = nil, addresses(d.Members)
	}
	return m
}

// send is driver.Config.Send.
func (n *Node) send(envelopes []machine.Envelope) {
	if n.peers == nil {
		return
	}
	for _, e := range envelopes {
		if t, ok := e.Body.(abcast.Transfer); ok && len(t.Base.Order.Sessions) > sessionsFew {
			transfer := e
			n.work.Go(func() { n.sendNow(transfer) }) // nothing would be stepped for as long as it takes
		} else {
			n.sendNow(e)
		}
	}
}

func (n *Node) sendNow(e machine.Envelope) {
	msg := n.seal(e.Body)
	if n.peers.Send(e.To, msg) {
		n.sent.add(e.Body, len(msg))
	}
}

// seal is a message of this life.
func (n *Node) seal(body any) []byte {
	w := writer{make(wire.Writer, 0, lifeBytes+48+carried(body))}
	w.Uint64(n.self)
	w.body(body)
	return w.Writer
}

// lifeBytes is the length of a message's first field: the number of the life that sends it.
const lifeBytes = 8

// deliver takes in messages of another member.
func (n *Node) deliver(from machine.NodeID, msgs [][]byte) {
	var envelopes []machine.Envelope
	for _, msg := range msgs {
		if len(msg) <= lifeBytes {
			continue
		}
		life := binary.LittleEndian.Uint64(msg)
		msg = append([]byte(nil), msg[lifeBytes:]...) // it is valid during the call only
		body, err := decode(msg[0], msg[1:])
		if err == nil {
			err = impossible(machine.Envelope{From: from, To: n.cfg.ID, Body: body}, n.cfg.clients())
		}
		if err != nil {
			n.logDropped(from, 1, err)
			continue
		}
		envelopes = append(envelopes, machine.Envelope{From: from, To: n.cfg.ID, Body: heard{life, body}})
	}
	n.mu.Lock()
	n.awaitRoom()
	n.mu.Unlock()
	n.driver.Offer(envelopes...)
}

// awaitRoom waits while messages are delivered faster than they go to disk. The machine does, too,
// so that the others take this member for stopped: one that lives and hears nothing could go on
// leading. n.mu is held.
func (n *Node) awaitRoom() {
	for n.full() && n.err == nil {
		n.room.Wait()
	}
}

// full reports whether memory has much more in it than it should. n.mu is held.
func (n *Node) full() bool { return n.bytes > memoryFactor*n.cfg.memoryBytes() }

// handle is driver.Config.Outcome.
func (n *Node) handle(outs []abcast.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := false
	for _, out := range outs {
		switch o := out.(type) {
		case abcast.Delivered:
			n.remember(message(o))
			n.answer(key{o.Client, o.Seq}, outcome{Position(o.Position), o.Err})
			grown = true
		case abcast.Repeated:
			n.answer(key{o.Client, o.Seq}, outcome{})
		case abcast.Forgotten:
			n.answer(key{o.Client, o.Seq}, outcome{err: errForgotten})
		case abcast.Refused:
			n.answer(key{o.Client, o.Seq}, outcome{err: refusal(o.Err)})
		case abcast.Lacks:
			n.lacks = o
			n.wakeKeeper()
		case abcast.Installed:
			n.ram, n.log, n.bytes = Position(o.Position), nil, 0
			n.room.Broadcast()
			n.cfg.Logger.Warn("broadcast: this member was behind, and goes on from another one's state", "position", o.Position)
			grown = true
		case counts:
			close(n.counts)
			n.cfg.Logger.Info("broadcast: this member takes part from now on: enough others have noted its directory")
		case awaits:
			n.cfg.Logger.Warn(n.cfg.waiting(), "needed", n.cfg.needed(), "waits for", o.whom)
		case wanted:
			n.answerWant(o.from, o.want)
		case listens:
			n.known[o.to] = o.life
		case refuted:
			n.logDropped(o.node, 1, o.err)
			n.cfg.Logger.Error("broadcast: a member's directory lacks promises that the member made; its messages are ignored: put its newest directory back, or remove it from the group and add another with a new ID", "member", o.node, "error", o.err)
		case forgotten:
			n.endAndDisconnect(fmt.Errorf("%w: member %d has noted directory %x with %d starts and %d records, and this is %x with %d starts",
				ErrForgotten, o.by, o.Dir, o.Lives, o.Mark, n.journal.self.Dir, n.journal.self.N))
		case abcast.Contradicted:
			n.onContradicted(o)
		case abcast.Impossible:
			n.logDropped(o.From, 1, o.Err)
		case abcast.Began:
			n.enterGroup(o.Group)
		case abcast.Established:
			n.dropRemoved(o.Group)
		case abcast.Leader:
			n.leader = o.Node
		}
	}
	if n.bytes > n.cfg.memoryBytes() {
		n.wakeKeeper()
	}
	if grown && n.err == nil {
		close(n.more)
		n.more = make(chan struct{})
	}
	n.awaitRoom()
}

func refusal(err error) error {
	switch {
	case errors.Is(err, abcast.ErrBusy):
		return ErrBusy
	case errors.Is(err, abcast.ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, abcast.ErrClient):
		return ErrClient
	case errors.Is(err, abcast.ErrOutside):
		return ErrNotMember
	}
	return err
}

func (n *Node) answer(k key, o outcome) {
	for _, w := range n.waiting[k] {
		w.outcome <- o
	}
	delete(n.waiting, k)
}

// Leader is the member that this one trusts to lead; 0 at first.
func (n *Node) Leader() machine.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader
}

// onContradicted: another member has another order. n.mu is held.
func (n *Node) onContradicted(c abcast.Contradicted) {
	n.cfg.Logger.Error("broadcast: another member has ordered other messages than this one, and is not listened to any more; one of the two directories has lost records", "member", c.From, "position", c.Position)
	if c.Outvoted {
		n.endAndDisconnect(fmt.Errorf("%w: up to position %d, says member %d", ErrOrder, c.Position, c.From))
	}
}

// endAndDisconnect ends a node that others must not hear any more. n.mu is held.
func (n *Node) endAndDisconnect(err error) {
	n.end(err)
	if n.peers != nil {
		go n.peers.Close()
	}
}

// fail ends all that waits.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end(err)
}

// failDisk ends a node whose disk has failed.
func (n *Node) failDisk(err error) {
	n.fail(err)
	if n.peers != nil {
		go n.peers.Close() // or the others would find out by a timeout
	}
}

func (n *Node) end(err error) {
	if n.err != nil {
		return
	}
	n.err = err
	n.endCalls(err)
	n.waiting = nil
	close(n.more)
	n.cancel()
	n.room.Broadcast()
}

// endCalls ends all calls that wait with ErrUnknown.
func (n *Node) endCalls(err error) {
	for k, list := range n.waiting {
		for _, w := range list {
			w.outcome <- outcome{err: fmt.Errorf("%w: %w", ErrUnknown, err)}
		}
		delete(n.waiting, k)
	}
}

// Close ends the node. Calls under way get ErrUnknown. A snapshot that is being written is given
// up, and Close waits for that.
func (n *Node) Close() error {
	var err error
	n.closing.Do(func() {
		n.fail(ErrClosed)
		n.driver.Stop()
		if n.peers != nil {
			err = n.peers.Close()
		}
		n.work.Wait()
		n.saving.Lock() // Snapshot may be under way
		defer n.saving.Unlock()
		n.keeping.Lock() // Trim may be
		defer n.keeping.Unlock()
		err = errors.Join(err, n.history.close(), n.journal.log.Close())
	})
	return err
}

// wait waits for the outcome of a broadcast.
func (n *Node) wait(ctx context.Context, w *waiter) (Position, error) {
	var why error
	select {
	case o := <-w.outcome:
		return o.position, o.err
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-n.ctx.Done():
		why = n.reason() // it waited to be stepped, maybe for ever
	}
	n.removeWaiter(w)
	select {
	case o := <-w.outcome:
		return o.position, o.err
	default:
		return 0, fmt.Errorf("%w: %w", ErrUnknown, why)
	}
}

// removeWaiter removes a waiting call: its message may wait on for long.
func (n *Node) removeWaiter(w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.DeleteFunc(n.waiting[w.key], func(other *waiter) bool { return other == w })
	if len(list) > 0 {
		n.waiting[w.key] = list
	} else {
		delete(n.waiting, w.key)
	}
}

func (n *Node) reason() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
