package flease

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Members are the peers of a cluster in one epoch. Each has an index of its own for good: the
// index is part of every ballot and token.
type Members struct {
	// Epoch counts the changes, from 1 and by one. A peer refuses a list whose epoch is more than
	// one greater than its own: the leases of the epoch between may not be over.
	Epoch uint64
	// Addrs are the addresses at which the peers listen for each other, host:port, by index.
	Addrs map[machine.NodeID]string
	// Was are the members of Epoch-1, which has to be active, while the change from them may not
	// be complete. A peer that starts takes part in the change then. Without Was, a start says
	// that all peers have been in this epoch for t_max and 3ε or more, or that it is the first.
	Was map[machine.NodeID]string
}

// A Membership returns the members. If known is zero, it returns the first members it knows; else
// it waits until they differ from known, or ctx ends. An error at the start ends Start. A later
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
func Fixed(m Members) Membership {
	return func(ctx context.Context, known Members) (Members, error) {
		if known.Epoch == 0 {
			return m, nil
		}
		<-ctx.Done()
		return known, context.Cause(ctx)
	}
}

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
func FromFile(path string) Membership {
	return func(ctx context.Context, known Members) (Members, error) {
		for {
			text, err := os.ReadFile(path)
			if err != nil {
				return known, fmt.Errorf("members: %w", err)
			}
			m, err := parseFile(text)
			if err != nil {
				return known, fmt.Errorf("members in %s: %w", path, err)
			}
			if known.Epoch == 0 || m.Epoch != known.Epoch || !maps.Equal(m.Addrs, known.Addrs) {
				return m, nil
			}
			select {
			case <-ctx.Done():
				return known, context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
	}
}

func parseFile(text []byte) (Members, error) {
	m := Members{Addrs: map[machine.NodeID]string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(line)
		to := &m.Addrs
		if len(f) == 3 && f[0] == "was" {
			f = f[1:]
			if to = &m.Was; m.Was == nil {
				m.Was = map[machine.NodeID]string{}
			}
		}
		switch {
		case len(f) == 0:
			continue
		case len(f) != 2:
			return m, fmt.Errorf("line %d: want \"epoch N\", \"INDEX host:port\" or \"was INDEX host:port\"", n)
		}
		number, err := strconv.ParseUint(f[0], 10, 63)
		if f[0] == "epoch" {
			if m.Epoch, err = strconv.ParseUint(f[1], 10, 63); err != nil || m.Epoch == 0 {
				return m, fmt.Errorf("line %d: %q is no epoch: write a number, from 1", n, f[1])
			}
			continue
		}
		if err != nil {
			return m, fmt.Errorf("line %d: %q is no index: write a number from 1 to %d", n, f[0], flease.MaxMember)
		}
		if old, twice := (*to)[machine.NodeID(number)]; twice {
			return m, fmt.Errorf("line %d: two peers with index %d, %s and %s: give each its own", n, number, old, f[1])
		}
		(*to)[machine.NodeID(number)] = f[1]
	}
	if m.Epoch == 0 {
		return m, errors.New("there is no line \"epoch N\": write epoch 1, and raise it with every change")
	}
	return m, cmp.Or(lines.Err(), m.check())
}

// ParseMembers reads addresses with commas in between. Peers get their indices from the order of
// their addresses, so that lists in any order agree; or each is given as INDEX=host:port. The
// epoch is 1: lists that change belong in a file, see FromFile.
func ParseMembers(list string) (Members, error) {
	m := Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}
	var plain []string
	for one := range strings.SplitSeq(list, ",") {
		index, addr, numbered := strings.Cut(one, "=")
		if !numbered {
			plain = append(plain, one)
			continue
		}
		n, err := strconv.ParseUint(index, 10, 63)
		if err != nil {
			return m, fmt.Errorf("%q is no index: write INDEX=host:port with an index from 1 to %d", index, flease.MaxMember)
		}
		if old, twice := m.Addrs[machine.NodeID(n)]; twice {
			return m, fmt.Errorf("two peers with index %d, %s and %s: give each its own", n, old, addr)
		}
		m.Addrs[machine.NodeID(n)] = addr
	}
	if len(plain) > 0 && len(m.Addrs) > 0 {
		return m, errors.New("give an index with every peer or with none")
	}
	slices.Sort(plain)
	for i, addr := range plain {
		m.Addrs[machine.NodeID(i+1)] = addr
	}
	return m, m.check()
}

// check returns what is wrong with a list.
func (m Members) check() error {
	if len(m.Was) > 0 {
		was := Members{Epoch: m.Epoch - 1, Addrs: m.Was}
		if err := was.check(); err != nil {
			return fmt.Errorf("of the epoch before: %w", err)
		}
		if m.Epoch < 2 {
			return errors.New("there is no epoch before the first: take the lines with \"was\" away, or raise the epoch")
		}
		if err := was.stay(m); err != nil {
			return err
		}
	}
	if len(m.Addrs) == 0 {
		return errors.New("there are no members: name the peers, host:port each")
	}
	seen := map[string]machine.NodeID{}
	for _, id := range m.indices() {
		addr := m.Addrs[id]
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" {
			return fmt.Errorf("peer %d is at %q: write host:port, as others reach it", id, addr)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("peer %d is at %q: %q is not a port", id, addr, port)
		}
		if id < 1 || id > flease.MaxMember {
			return fmt.Errorf("peer %s has index %d: give it one from 1 to %d", addr, id, flease.MaxMember)
		}
		if other, twice := seen[addr]; twice {
			return fmt.Errorf("%s is listed twice, with the indices %d and %d: one peer, one index", addr, other, id)
		}
		seen[addr] = id
	}
	return nil
}

// indices returns the members' indices, ascending.
func (m Members) indices() []machine.NodeID { return slices.Sorted(maps.Keys(m.Addrs)) }

// index returns the index of the peer at the address.
func (m Members) index(addr string) (machine.NodeID, bool) {
	for _, id := range m.indices() {
		if m.Addrs[id] == addr {
			return id, true
		}
	}
	return 0, false
}

// all returns the members of this epoch and of the one before.
func (m Members) all() map[machine.NodeID]string {
	all := maps.Clone(m.Was)
	if all == nil {
		all = map[machine.NodeID]string{}
	}
	maps.Copy(all, m.Addrs)
	return all
}

// first returns the view that a peer starts in.
func (m Members) first(replicas int) flease.View {
	if len(m.Was) > 0 {
		return Members{Epoch: m.Epoch - 1, Addrs: m.Was}.view(replicas)
	}
	return m.view(replicas)
}

// view returns the members as the protocol knows them.
func (m Members) view(replicas int) flease.View {
	places := fnv.New64a()
	for _, id := range m.indices() {
		fmt.Fprintf(places, "%d=%s\n", id, m.Addrs[id])
	}
	return flease.View{Epoch: m.Epoch, Members: m.indices(), Replicas: replicas, Places: places.Sum64()}
}

// checkNext returns an error if a list cannot be the next after m.
func (m Members) checkNext(next Members) error {
	if err := next.check(); err != nil {
		return err
	}
	switch {
	case next.Epoch <= m.Epoch:
		return fmt.Errorf("a list of members for epoch %d, with others than those of epoch %d: raise the epoch with every change", next.Epoch, m.Epoch)
	case next.Epoch > m.Epoch+1:
		return fmt.Errorf("a list of members for epoch %d, and the last one here is of epoch %d: epochs go up by one, each when the one before is active at every peer: write epoch %d", next.Epoch, m.Epoch, m.Epoch+1)
	case len(next.Was) > 0 && !maps.Equal(next.Was, m.Addrs):
		return fmt.Errorf("the list of epoch %d says that there was %v, and there is %v: write that with \"was\"", next.Epoch, Members{Epoch: m.Epoch, Addrs: next.Was}, m)
	}
	return m.stay(next)
}

// stay returns an error if a peer of both lists has another address in the next: two processes
// would be one peer.
func (m Members) stay(next Members) error {
	all := m.all()
	for _, id := range next.indices() {
		if old, known := all[id]; known && old != next.Addrs[id] {
			return fmt.Errorf("index %d, which is the peer at %s, is at %s in epoch %d: a peer that moves is a new one, give it a new index", id, old, next.Addrs[id], next.Epoch)
		}
	}
	return nil
}

// String returns the list in the form of ParseMembers, with the epoch.
func (m Members) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d:", m.Epoch)
	for _, id := range m.indices() {
		fmt.Fprintf(&b, " %d=%s", id, m.Addrs[id])
	}
	return b.String()
}
