package flease

import (
	"context"

	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Members are the peers of a cluster in one epoch. Each has an index of its own for good: the
// index is part of every ballot and token.
type Members struct {
	// Epoch counts the changes, from 1 and by one. A peer refuses a list whose epoch is more than
	// one greater than its own: the leases of the epoch between may not be over.
	Epoch uint64
	// Addrs are the addresses at which the peers listen for each other, host:port, by index.
	Addrs map[uint64]string
	// Was are the members of Epoch-1, which has to be active, while the change from them may not
	// be complete. A peer that starts takes part in the change then. Without Was, a start says
	// that all peers have been in this epoch for t_max and 3ε or more, or that it is the first.
	Was map[uint64]string
}

// A Membership returns the members. If known is zero, it returns the first members it knows; else
// it waits until they differ from known, or ctx ends. An error at the start ends Open. A later
// one is logged, and the Membership is called again a little later.
//
// The Membership decides the order of changes: epochs go up by one, and the next list comes when
// every peer has logged that the view of the last one is active. A peer keeps a list that comes
// sooner until then, and known does not change meanwhile. Two lists with one epoch and different
// members are refused by every peer that sees both.
//
// No peer may be started with an old list: a majority of an old cell that cannot reach the
// others would agree among itself. So destroy all copies of old lists.
type Membership func(ctx context.Context, known Members) (Members, error)

// Fixed is a Membership that never changes.
func Fixed(m Members) Membership { return membership(flease.Fixed(m.peer())) }

// FromFile is a Membership that reads a file, and looks at it every second. Its lines are
//
//	epoch 2              # raise it by one with every change
//	1 a.example:7000     # the index of a peer, and its address
//	3 c.example:7000
//	was 1 a.example:7000 # those of the epoch before, until the change is complete
//	was 2 b.example:7000
//
// A newcomer that starts without lines with "was" takes the epoch for an old one. It asks the
// others, and does not start if one of them disagrees. A peer does not start either if its lines
// with "was" are of an epoch that is not active yet, or differ from the members of that epoch.
//
// Remove the lines with "was" when every peer has logged that the view is active;
// `tenure peer status` shows it, too. Only then may the next change come, with the next epoch. A
// peer whose file skips an epoch stays as it is and logs that.
//
// Write a new file beside the old one and rename it, so that no peer reads half a list. Destroy
// old lists: peers that start with one, and reach no peer with the new one, give out leases a
// second time.
func FromFile(path string) Membership { return membership(flease.FromFile(path)) }

// ParseMembers reads addresses with commas in between. Peers get their indices from the order of
// their addresses, so that lists in any order agree; or each is given as INDEX=host:port. The
// epoch is 1: lists that change belong in a file, see FromFile.
func ParseMembers(list string) (Members, error) {
	m, err := flease.ParseMembers(list)
	return members(m), err
}

// peer is the same list for the peer.
func (m Members) peer() flease.Members {
	return flease.Members{Epoch: m.Epoch, Addrs: indexed[machine.NodeID](m.Addrs), Was: indexed[machine.NodeID](m.Was)}
}

// members is the same list for users.
func members(m flease.Members) Members {
	return Members{Epoch: m.Epoch, Addrs: indexed[uint64](m.Addrs), Was: indexed[uint64](m.Was)}
}

// peer is the same Membership for the peer; nil if there is none.
func (m Membership) peer() flease.Membership {
	if m == nil {
		return nil
	}
	return func(ctx context.Context, known flease.Members) (flease.Members, error) {
		next, err := m(ctx, members(known))
		return next.peer(), err
	}
}

// membership is the same Membership for users.
func membership(m flease.Membership) Membership {
	return func(ctx context.Context, known Members) (Members, error) {
		next, err := m(ctx, known.peer())
		return members(next), err
	}
}

// indexed returns the same addresses under indices of another type; of nil it is nil.
func indexed[To, From ~uint64](from map[From]string) map[To]string {
	if from == nil {
		return nil
	}
	to := make(map[To]string, len(from))
	for index, addr := range from {
		to[To(index)] = addr
	}
	return to
}
