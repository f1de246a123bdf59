package broadcast

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// Config describes a member.
type Config struct {
	// ID is this member's: not 0, and never given to another member of the group again.
	ID MemberID
	// Group is a number that all members have in common and no other group has.
	Group uint64
	// Members are all members, this one included, and where they listen (host:port). It
	// describes the first start: afterwards the log knows the members, and Members is only
	// where to look for others besides, and may be left out. The IDs are the same at all
	// founders; an address is how this one reaches that member.
	Members map[MemberID]string
	// Join is for a member that comes to a group that is there: AddMember has to name it, at
	// any of the others, before or after it starts. Its Members are the group's. It does
	// nothing once the directory has something in it.
	Join bool
	// Listener is where the others reach this member. Start owns it from now on, and closes
	// it if it fails. It may be missing if there is one member for good.
	Listener net.Listener
	// TLS is used both to listen and to dial: its Certificates for both, RootCAs to check the
	// members that are dialed, ClientCAs and ClientAuth to check those that dial. Nil means
	// plain TCP.
	TLS *tls.Config
	// DataDir is the directory of this member's log and snapshots, and no other member's.
	DataDir string

	// SuspicionTimeout is after what silence a member is suspected; 0 means 1 s. For one that
	// was suspected wrongly it is longer for some time: see the package comment.
	SuspicionTimeout time.Duration
	// MaxPendingBytes bounds the payloads that wait here to be ordered; beyond it Broadcast is
	// ErrBusy. 0 means 16 MiB.
	MaxPendingBytes int
	// MemoryBytes bounds the delivered messages that are kept in memory; older ones are read
	// from disk. 0 means 32 MiB. A disk that is too slow may make it four times as much; then
	// this member stands still until there is room, and Broadcast is ErrBusy.
	MemoryBytes int
	// MaxClients is the number of clients that are remembered: those whose messages were
	// ordered last. 0 means 100,000; the limit is a million. It has to be the same at all
	// members, for good, because it decides which messages are ordered. A member that is behind
	// gets all of them in one message, of 21 to 36 bytes for each. It stands still while it
	// takes them in, some hundredths of a second for 100,000.
	MaxClients int
	// Logger is told about connections and suspicions; nil means slog.Default.
	Logger *slog.Logger
}

// member is the same for the member behind the Node.
func (c Config) member() broadcast.Config {
	return broadcast.Config{
		ID: machine.NodeID(c.ID), Group: c.Group, Members: members[machine.NodeID](c.Members), Join: c.Join,
		Listener: c.Listener, TLS: c.TLS, Dir: c.DataDir,
		Timeout: c.SuspicionTimeout, PendingBytes: c.MaxPendingBytes,
		MemoryBytes: c.MemoryBytes, Clients: c.MaxClients, Logger: c.Logger,
	}
}

// members returns the same addresses under IDs of another type; of nil it is nil.
func members[To, From ~uint64](from map[From]string) map[To]string {
	if from == nil {
		return nil
	}
	to := make(map[To]string, len(from))
	for id, addr := range from {
		to[To(id)] = addr
	}
	return to
}
