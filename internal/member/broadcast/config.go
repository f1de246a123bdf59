package broadcast

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Config describes a member.
type Config struct {
	ID machine.NodeID
	// Group is a number that all members have in common and no other group has.
	Group uint64
	// Members are all members, this one included, and where they listen (host:port). It
	// describes the first start. Afterwards the log knows the members, and this map only adds
	// addresses at which to look for others; it may be left out. The IDs are the same at all
	// founders; an address is how this one reaches that member.
	Members map[machine.NodeID]string
	// Join is for a member that comes to a group that is there: AddMember has to name it, at
	// any of the others, before or after it starts. Its Members are the group's. It does
	// nothing once the directory has something in it.
	Join bool
	// Listener is where the others reach this member. Start owns it from now on, and closes
	// it if it fails. It may be missing if there is one member for good.
	Listener net.Listener
	TLS      *tls.Config // see peer.Config; nil means plain TCP
	// Dial connects to the other members; nil means by TCP.
	Dial peer.DialFunc
	// Dir is the directory of this member's log, and WAL are its options.
	Dir string
	WAL wal.Options

	// Algorithm changes the algorithm of the group, for measurements: to CT96, say, or to the
	// paper's ways. Members with other algorithms refuse each other. Nil is the product's.
	Algorithm func(*abcast.Config)
	// Timeout is after what silence a member is suspected; 0 means 1 s. For one that was
	// suspected wrongly it is longer for some time: see the package comment.
	Timeout time.Duration
	// PendingBytes bounds the payloads that wait here to be ordered; 0 means 16 MiB.
	PendingBytes int
	// MemoryBytes bounds the delivered messages that are kept in memory; older ones are read
	// from disk. 0 means 32 MiB. A disk that is too slow may make it four times as much; then
	// this member stands still until there is room, and Broadcast is ErrBusy.
	MemoryBytes int
	// Clients is the number of clients that are remembered: those whose messages were ordered
	// last. 0 means 100,000; the limit is a million. It has to be the same at all members, for
	// good, because it decides which messages are ordered. A member that is behind is told all
	// of them in one message, of 21 bytes for each and 36 at most. The sender goes on
	// meanwhile. The receiver stands still while it takes them in: some hundredths of a second
	// for 100,000.
	Clients int
	// Logger is told about connections and suspicions; nil means slog.Default.
	Logger *slog.Logger
}

const (
	// MessageBytesMax is the size of the largest payload.
	MessageBytesMax = 1<<20 - 64

	batchBytes     = 1 << 20
	batchCount     = 1000
	clientsMax     = 1_000_000
	clientsDefault = 100_000
	// sessionsFew is how many clients' sessions are sent as quickly as anything else.
	sessionsFew = 1000
	timeoutMax  = 24 * time.Hour
	// memoryFactor times MemoryBytes may be in memory when the disk is slow.
	memoryFactor = 4

	// wireVersion counts the changes of the protocol between members.
	wireVersion = 2

	// linger is how long a decision may wait to be written with a record that is forced. A
	// member that has lost the decision with its process hears it again, or decides it again.
	linger = 20 * time.Millisecond
)

// Why an operation failed.
var (
	// ErrBusy says that too much waits to be ordered. Nothing was sent; try again later.
	ErrBusy = errors.New("broadcast: too much waits to be ordered; try again later")
	// ErrUnknown says that nobody waits for the outcome any more: the message may have
	// been ordered, and may be yet.
	ErrUnknown = errors.New("broadcast: the message may or may not be ordered")
	// ErrClosed says that the node was closed.
	ErrClosed = errors.New("broadcast: the node is closed")
	// ErrTrimmed says that messages from a position on are asked for that are not kept
	// any more. Install has the state that they led to.
	ErrTrimmed = errors.New("broadcast: messages at this position are trimmed")
	// ErrPosition says that there can be no snapshot of a position, or that it cannot be
	// trimmed.
	ErrPosition = errors.New("broadcast: the position is not possible")
	// ErrTooLarge says that a payload is larger than MessageBytesMax.
	ErrTooLarge = errors.New("broadcast: the message is too large")
	// ErrSequence says that a client's message before this one was neither ordered nor
	// broadcast here, or that the client was not heard of for long and is forgotten. This
	// call has not ordered the message, and will not.
	ErrSequence = abcast.ErrSequence
	// ErrClient says that a client's ID was not made by NewClient, or at a member that is
	// further than this one. Nothing was sent.
	ErrClient = errors.New("broadcast: the client's ID is not known here: make it with NewClient; if another member did, this one is behind, and can be tried again")
	// ErrNotMember says that the node waits to be made a member. Nothing was sent.
	ErrNotMember = errors.New("broadcast: this is not yet a member of the group")
	// ErrRemoved says that the node is a member no more. It should be closed, and its
	// directory can be deleted.
	ErrRemoved = errors.New("broadcast: this member was removed from the group")
	// ErrChange says that a change of the members makes no sense: none was made.
	ErrChange    = abcast.ErrChange
	errForgotten = fmt.Errorf("%w: this member was given the state of another one, in which the client is forgotten", ErrUnknown)
	// ErrGroup says that a directory is another group's or member's.
	ErrGroup = errors.New("broadcast: the directory belongs to another group or member")
)

func (c Config) validate() error {
	switch {
	case c.ID == 0 || c.Group == 0:
		return errors.New("broadcast: a member and its group need numbers other than 0")
	case c.Timeout < 0 || c.Timeout > timeoutMax:
		return fmt.Errorf("broadcast: Timeout is %v: must be from 0, the default, to %v", c.Timeout, timeoutMax)
	case c.PendingBytes < 0:
		return fmt.Errorf("broadcast: PendingBytes is %d: must not be negative", c.PendingBytes)
	case c.MemoryBytes < 0:
		return fmt.Errorf("broadcast: MemoryBytes is %d: must not be negative", c.MemoryBytes)
	case c.Clients < 0 || c.Clients > clientsMax:
		return fmt.Errorf("broadcast: Clients is %d: must be from 1 to %d", c.Clients, clientsMax)
	case c.Dir == "":
		return errors.New("broadcast: Dir is missing")
	}
	return nil
}

// validateFounding checks the fields that the first start needs.
func (c Config) validateFounding() error {
	if c.Members[c.ID] == "" && !c.Join {
		return fmt.Errorf("broadcast: member %d is not one of the group %v", c.ID, c.Members)
	}
	return c.validateListener(len(c.Members))
}

// validateListener checks that the others, if the members are more than one, can reach this one.
func (c Config) validateListener(members int) error {
	if (members > 1 || c.Join) && c.Listener == nil {
		return errors.New("broadcast: Listener is missing, and others could not reach this member")
	}
	return nil
}

func (c Config) timeout() time.Duration { return cmp.Or(c.Timeout, time.Second) }
func (c Config) memoryBytes() int       { return cmp.Or(c.MemoryBytes, 32<<20) }
func (c Config) clients() int           { return cmp.Or(c.Clients, clientsDefault) }

// cluster is what members tell each other to be of. Those that go by other rules would order
// other messages, or wait for each other: they are of another group.
func (c Config) cluster() uint64 {
	algorithm := c.machine(1).Consensus
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d %t %t", wireVersion, c.Group, c.clients(), algorithm.Plain, !algorithm.Spread)
	return h.Sum64()
}

// machine returns the configuration of the protocol.
func (c Config) machine(life uint64) abcast.Config {
	var ids []machine.NodeID
	for id := range c.Members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	timeout := c.timeout()
	waits := max(cmp.Or(c.PendingBytes, 16<<20), batchBytes)
	cfg := abcast.Config{
		Consensus: fastct.Config{
			ID: c.ID, Members: ids, Spread: true, Lambda: 1000, Prefetch: true,
			Retry: timeout / 4, Heartbeat: timeout / 5, Timeout: timeout,
		},
		Addresses: c.Members, Join: c.Join, Life: life, BatchCount: batchCount, BatchBytes: batchBytes, PendingCount: 1 << 16, PendingBytes: waits,
		Pipeline: 4, Relay: timeout, Direct: true, Clients: c.clients(),
	}
	if c.Algorithm != nil {
		c.Algorithm(&cfg)
	}
	return cfg
}
