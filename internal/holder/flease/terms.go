package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// terms are the settings that all peers of a cluster must have in common, and the state that they
// compare. A peer answers with them, in JSON, to any question without an inquiry.
type terms struct {
	Cluster  string                    `json:"cluster"`
	TMax     time.Duration             `json:"t_max"`
	Epsilon  time.Duration             `json:"epsilon"`
	Replicas int                       `json:"replicas"`
	Self     machine.NodeID            `json:"self"`
	Life     uint32                    `json:"life,omitempty"` // incarnation of this start
	Epoch    uint64                    `json:"epoch"`          // of the members
	Active   uint64                    `json:"active"`         // of the view in which the peer votes
	Members  map[machine.NodeID]string `json:"members"`
}

// id is the cluster's id in the peers' handshakes. Peers that differ in a permanent term have no
// streams at all. Members may change, and the protocol compares them with every batch.
func (t terms) id() uint64 {
	var w wire.Writer
	w.Put([]byte(t.Cluster))
	w.Uint64(uint64(t.TMax))
	w.Uint64(uint64(t.Epsilon))
	w.Uint64(uint64(t.Replicas))
	h := fnv.New64a()
	_, _ = h.Write(w)
	return h.Sum64()
}

// disagreement returns how another peer's terms differ from ours, with advice; nil if they agree.
func (t terms) disagreement(o terms, at string) error {
	var all []string
	differ := func(what string, ours, theirs any) {
		all = append(all, fmt.Sprintf("%s is %v here and %v there", what, ours, theirs))
	}
	if t.Cluster != o.Cluster {
		return fmt.Errorf("the peer at %s is of cluster %q, this one of %q: correct its address here, or give both one cluster name", at, o.Cluster, t.Cluster)
	}
	if t.TMax != o.TMax {
		differ("t_max", t.TMax, o.TMax)
	}
	if t.Epsilon != o.Epsilon {
		differ("ε", t.Epsilon, o.Epsilon)
	}
	if t.Replicas != o.Replicas {
		differ("the size of cells", t.Replicas, o.Replicas)
	}
	if t.Epoch == o.Epoch && !maps.Equal(t.Members, o.Members) {
		differ("the list of members", Members{Epoch: t.Epoch, Addrs: t.Members}, Members{Epoch: o.Epoch, Addrs: o.Members})
	}
	if len(all) > 0 {
		return fmt.Errorf("the peer at %s disagrees: %s: give all peers the same, and restart those that had another", at, strings.Join(all, "; "))
	}
	return nil
}

// terms returns this peer's terms.
func (p *Peer) terms() terms {
	m := p.Members()
	return terms{
		Cluster: p.cfg.Cluster, TMax: p.cfg.TMax, Epsilon: p.cfg.Epsilon, Replicas: p.cfg.Replicas,
		Self: p.self, Life: p.pure.Incarnation, Epoch: m.Epoch, Active: p.activeEpoch.Load(), Members: m.Addrs,
	}
}

// answer answers a question with this peer's terms, or with the names or records that it knows.
func (p *Peer) answer(say []byte) []byte {
	var said any = p.terms()
	var in inquiry
	switch {
	case len(say) == 0 || json.Unmarshal(say, &in) != nil:
	case in.Record != nil:
		said = p.shown(*in.Record)
	case in.Names:
		said = p.names(in)
	}
	b, err := json.Marshal(said)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return b
}

// askEpoch asks the others, before a peer starts, whether its list follows on the view in which
// they vote. Peers with a list that is old, or not in force yet, would agree among themselves,
// beside the others.
func (p *Peer) askEpoch(ctx context.Context) error {
	if p.cfg.fresh {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, holder.ErrPatience)
	defer cancel()
	var mu sync.Mutex
	var out error
	var all sync.WaitGroup
	for id, addr := range p.members.all() {
		if id == p.self {
			continue
		}
		all.Go(func() {
			said, err := peer.Ask(ctx, addr, p.cfg.TLS, p.cfg.Dial, nil)
			var theirs terms
			if err != nil || json.Unmarshal(said, &theirs) != nil || theirs.Cluster != p.cfg.Cluster {
				return
			}
			if err := p.members.checkBeside(theirs); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out = fmt.Errorf("peer %d at %s is in epoch %d, and the list of this one is of epoch %d%w", id, addr, theirs.Active, p.members.Epoch, err)
			}
		})
	}
	all.Wait()
	return out
}

// checkBeside returns an error with advice if a peer with this list must not start beside one that
// runs.
func (m Members) checkBeside(theirs terms) error {
	switch {
	case theirs.Active > m.Epoch:
		return errors.New(": start it with the newest list, and destroy old ones")
	case len(m.Was) == 0 && theirs.Active < m.Epoch:
		return errors.New(" and does not name the members before: add lines \"was INDEX host:port\" until the change is complete")
	case len(m.Was) > 0 && theirs.Active+1 < m.Epoch:
		return fmt.Errorf(": epochs go up by one: first let epoch %d become active at every peer", theirs.Active+1)
	case len(m.Was) > 0 && theirs.Epoch+1 == m.Epoch && !maps.Equal(theirs.Members, m.Was):
		return fmt.Errorf(" and says that there was %v, where there is %v: write that with \"was\"",
			Members{Epoch: m.Epoch - 1, Addrs: m.Was}, Members{Epoch: theirs.Epoch, Addrs: theirs.Members})
	}
	return nil
}

// compare asks another peer for its terms and remembers whether they agree with ours. reason is the
// refusal that led to it, or nil.
func (p *Peer) compare(id machine.NodeID, reason error) {
	m := p.Members()
	addr, member := m.Addrs[id]
	if !member {
		return
	}
	said, err := peer.Ask(p.ctx, addr, p.cfg.TLS, p.cfg.Dial, nil)
	var theirs terms
	if err == nil {
		err = json.Unmarshal(said, &theirs)
	}
	switch {
	case p.ctx.Err() != nil:
		return
	case err != nil:
		err = reason // without an answer, the refusal's own words count
	case theirs.Self != id && theirs.Cluster == p.cfg.Cluster:
		err = fmt.Errorf("the peer at %s has index %d, and index %d in the list of this one (%v): give both the same list", addr, theirs.Self, id, m)
	default:
		if theirs.Cluster == p.cfg.Cluster {
			p.shelf.heard(id, theirs.Life)
		}
		err = p.terms().disagreement(theirs, addr)
		if err == nil && errors.Is(reason, peer.ErrUnknownMember) {
			err = reason
		}
	}
	if p.note(id, err) {
		p.cfg.Logger.Error("flease: "+err.Error(), "peer", id)
	}
}

// note remembers a peer's trouble, nil for none, and reports whether it is new.
func (p *Peer) note(id machine.NodeID, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.troubles[id]
	if err == nil {
		delete(p.troubles, id)
		return false
	}
	p.troubles[id] = err
	return old == nil || old.Error() != err.Error()
}

// heard is a fault of a peer, and when it was heard. It is forgotten unless it happens again.
type heard struct {
	err error
	at  machine.Mono
}

// faultPeriod is how long a fault counts. A lasting one is reported at least once in a t_max.
func (p *Peer) faultPeriod() time.Duration { return 2 * p.cfg.TMax }

// noteFault remembers a fault of a peer, and reports whether it is new.
func (p *Peer) noteFault(id machine.NodeID, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.trouble(id)
	p.heard[id] = heard{err, p.cfg.Clock.Now()}
	return old == nil || old.Error() != err.Error()
}

// trouble returns what is wrong with a peer, nil for nothing. p.mu is held.
func (p *Peer) trouble(id machine.NodeID) error {
	if err := p.troubles[id]; err != nil {
		return err
	}
	if h, ok := p.heard[id]; ok {
		if p.cfg.Clock.Now() < h.at.Add(p.faultPeriod()) {
			return h.err
		}
		delete(p.heard, id)
	}
	return nil
}

// compareAgain compares terms that differed again: the members of either side may have changed
// since.
func (p *Peer) compareAgain() {
	for wait(p.ctx, min(p.cfg.TMax, 10*time.Second)) == nil {
		p.mu.Lock()
		again := maps.Clone(p.troubles)
		p.mu.Unlock()
		for id, reason := range again {
			if !errors.Is(reason, peer.ErrUnknownMember) { // that trouble ends with a new stream
				p.compare(id, nil)
			}
		}
	}
}

// up is called when there is a stream to the peer.
func (p *Peer) up(id machine.NodeID) {
	p.letIn(id)
	p.spawn(func() { p.compare(id, nil) })
}

// refused is called when a peer refuses our connections.
func (p *Peer) refused(id machine.NodeID, reason error) {
	if errors.Is(reason, peer.ErrDuplicateID) {
		p.spawn(func() { p.doubled(id, reason) })
		return
	}
	p.spawn(func() { p.compare(id, reason) })
}

// spawn runs f on a goroutine that Close waits for.
func (p *Peer) spawn(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil && !p.ended {
		p.running.Go(f)
	}
}
