package node

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// ID is this member's.
func (n *Node) ID() uint64 { return uint64(n.id) }

// ClusterID is the cluster's.
func (n *Node) ClusterID() uint64 { return n.cluster }

// Unsynced reports whether this member leaves out the syncs of its disk.
func (n *Node) Unsynced() bool { return n.cfg.UnsafeNoSync }

// State is the published state.
func (p *published) State() *state { return p.state.Load() }

// View is the published state of the store: immutable, for any goroutine. It is the zero
// View while there is none.
func (p *published) View() kv.View { return p.State().view }

// Users are the users and roles in the published state. While there is none, they are those that
// the member has applied: it then shows nobody any key.
func (p *published) Users() *auth.State {
	if users := p.State().users; users != nil {
		return users
	}
	return p.applied().users
}

// Alarms are those in the published state, none while there is none.
func (p *published) Alarms() *alarm.State { return p.State().alarms }

// Shown is closed when View is a state for the first time.
func (p *published) Shown() <-chan struct{} { return p.shown }

// Watches is where watchers of this member's published states register.
func (n *Node) Watches() *watch.Hub { return n.hub }

// Leader is the member that this one believes to lead, 0 if none, and for how
// long there has been none.
func (n *Node) Leader() (id uint64, term uint64, lostFor time.Duration) {
	l := n.leadership.Load()
	if l.leader == 0 {
		lostFor = time.Since(l.at)
	}
	return uint64(l.leader), l.term, lostFor
}

// Status is what a member's replica knows, and ReadLeaseStatus its part on read leases.
type (
	Status          = replica.Status
	ReadLeaseStatus = replica.ReadLeaseStatus
)

// Status asks the replica; it takes a turn of the stepping goroutine.
func (n *Node) Status() (st Status, ok bool) {
	answer := make(chan Status, 1)
	if !n.driver.Do(func() { answer <- n.replica.Status() }) {
		return st, false
	}
	return <-answer, true
}

// RoundTrip is the distance to another member, smoothed; 0 if it is not known.
func (n *Node) RoundTrip(id uint64) time.Duration {
	if n.peers == nil {
		return 0
	}
	return n.peers.Stats(machine.NodeID(id)).RTT
}

// Stats are of the newest state, whether it may be seen or not.
func (p *published) Stats() kv.Stats { return p.applied().view.Stats() }

// Members lists the members, by ID: those that have not started have no name.
func (p *published) Members() []*pb.Member { return p.State().roster.Members }

func announced(told []*pb.Member, me *pb.Member) bool {
	return slices.ContainsFunc(told, func(t *pb.Member) bool {
		return t.ID == me.ID && t.Name == me.Name && slices.Equal(t.ClientURLs, me.ClientURLs)
	})
}

// peerAddress is the host:port of a member's URL. It has to be an address that others can
// dial, and its scheme shows whether TLS is used.
func peerAddress(raw string, secure bool) (string, error) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return "", fmt.Errorf("node: peer URL %q: want %s://host:port", raw, scheme)
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
		return "", fmt.Errorf("node: peer URL %s has no port: want %s://host:port", raw, scheme)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		return "", fmt.Errorf("node: peer URL %s is not an address that others can dial: give one by which they reach that member (--initial-advertise-peer-urls)", raw)
	}
	if u.Scheme != scheme {
		return "", fmt.Errorf("node: peer URL %s: this member speaks %s with its peers, by --listen-peer-urls; all members must do the same", raw, scheme)
	}
	return u.Host, nil
}
