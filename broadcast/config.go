package broadcast

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

// Config describes a member.
type Config struct {
	ID machine.NodeID
	// Group is a number that all members have in common and no other group has.
	Group uint64
	// Members are all members, this one included, and where they listen (host:port).
	Members map[machine.NodeID]string
	// Listener is where the others reach this member. The node owns it from now on. It
	// may be missing if there is one member.
	Listener net.Listener
	TLS      *tls.Config // see peer.Config; nil means plain TCP
	// Dir is the directory of this member's log.
	Dir string

	// Lambda is for how many instances of consensus a leader asks for a lease at most; 0
	// means 1,000. A longer one costs more if the leader dies.
	Lambda uint64
	// Plain is CT96 without leases, for comparison. The same at all members.
	Plain bool
	// Timeout is after what silence a member is suspected; 0 means 1 s.
	Timeout time.Duration
	// Pipeline is how many batches may be under way at a time; 0 means 4.
	Pipeline int
	// PendingBytes bounds what waits here to be ordered; 0 means 16 MiB.
	PendingBytes int
	// Logger is told about connections and suspicions; nil means slog.Default.
	Logger *slog.Logger
}

const (
	// MessageBytesMax is the size of the largest payload.
	MessageBytesMax = 1<<20 - 64

	batchBytes = 1 << 20
	batchCount = 1000
	clientsMax = 100_000
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
	// any more. Base has the state that they led to.
	ErrTrimmed = errors.New("broadcast: messages at this position are trimmed")
	// ErrTooLarge says that a payload is larger than MessageBytesMax.
	ErrTooLarge = errors.New("broadcast: the message is too large")
	// ErrSequence says that a client's message before this one was neither ordered nor
	// broadcast here, or that the client was not heard of for long and is forgotten.
	ErrSequence = abcast.ErrSequence
	// ErrGroup says that a directory is another group's or member's.
	ErrGroup = errors.New("broadcast: the directory belongs to another group or member")
)

func (c Config) validate() error {
	switch {
	case c.ID == 0 || c.Group == 0:
		return errors.New("broadcast: a member and its group need numbers other than 0")
	case c.Members[c.ID] == "":
		return fmt.Errorf("broadcast: member %d is not one of the group %v", c.ID, c.Members)
	case len(c.Members) > 1 && c.Listener == nil:
		return errors.New("broadcast: Listener is missing, and others could not reach this member")
	case c.Dir == "":
		return errors.New("broadcast: Dir is missing")
	}
	return nil
}

// machine returns the configuration of the protocol.
func (c Config) machine(life uint64) abcast.Config {
	var ids []machine.NodeID
	for id := range c.Members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	timeout := cmp.Or(c.Timeout, time.Second)
	waits := max(cmp.Or(c.PendingBytes, 16<<20), batchBytes)
	return abcast.Config{
		Consensus: fastct.Config{
			ID: c.ID, Members: ids, Plain: c.Plain, Spread: true, Lambda: cmp.Or(c.Lambda, 1000), Prefetch: true,
			Retry: timeout / 4, Heartbeat: timeout / 5, Timeout: timeout,
		},
		Life: life, BatchCount: batchCount, BatchBytes: batchBytes, PendingCount: 1 << 16, PendingBytes: waits,
		Pipeline: cmp.Or(c.Pipeline, 4), Relay: timeout, Clients: clientsMax,
	}
}
