package peer

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

var (
	// ErrWrongCluster means that the other side belongs to another cluster.
	ErrWrongCluster = errors.New("cluster ids differ")
	// ErrUnknownMember means that the other side does not know this member.
	ErrUnknownMember = errors.New("not a member of the cluster")
	// ErrRemoved means that the other side knows this member to be one no more.
	ErrRemoved = errors.New("the member has been permanently removed from the cluster")
	// ErrWrongAddress means that another member answers at a peer's address.
	ErrWrongAddress = errors.New("another member is at that address")
	// ErrDuplicateID means that two running processes claim one member id.
	ErrDuplicateID = errors.New("another process runs with this member id")
	// ErrUnconfirmed means that the other side could not have this connection confirmed at
	// the address that it knows of this member: nobody answers there, or another.
	ErrUnconfirmed = errors.New("not confirmed at the member's address")
	// ErrVersion means that the other side speaks another protocol.
	ErrVersion = errors.New("protocol versions differ")
	// errBusy means that the receiver has a bulk stream from us already.
	errBusy = errors.New("the receiver is busy with another stream")
	// errUnsupported means that the receiver takes no bulk streams.
	errUnsupported = errors.New("the receiver takes no streams")
	// errProtocol means that the other side sent what it must not.
	errProtocol = errors.New("protocol violated")
	// errRejected means that the receiver's Stream function failed.
	errRejected = errors.New("the receiver rejected the stream")
	// ErrClosed means that the transport was closed.
	ErrClosed = errors.New("transport closed")

	// errTooQuiet means that nothing was heard for too long.
	errTooQuiet = errors.New("nothing heard for too long")

	errRestarted = errors.New("its process was restarted")
	errNotMine   = errors.New("this process did not dial that connection")
)

// Refusal is the other side's reason to refuse a connection. It matches one of
// this package's errors.
type Refusal struct {
	By     machine.NodeID
	Reason string
	kind   error
}

// Error gives the reason in the other side's words.
func (r *Refusal) Error() string {
	return fmt.Sprintf("peer: member %x refuses this one: %q: %v", uint64(r.By), r.Reason, r.kind)
}

// Unwrap returns the sentinel.
func (r *Refusal) Unwrap() error { return r.kind }

// hex writes a member's id as etcd's tools do.
func hex(id machine.NodeID) string { return fmt.Sprintf("%x", uint64(id)) }

func violation(format string, args ...any) error {
	return fmt.Errorf("peer: %w: %s", errProtocol, fmt.Sprintf(format, args...))
}
