package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// admission decides whether this member may take part, and which others it listens to, by
// data directories: see the package comment. While it is not open nothing is sent to the
// other members, or taken from them, but greetings.
type admission struct {
	open atomic.Bool
	// refused are the members whose directory is not the one that this one remembers.
	refused sync.Map // of machine.NodeID

	mu        sync.Mutex
	me        origin              // as it is told to others
	boot      uint64              // of this start, which me.Boot is not while an earlier one is in doubt
	need      []uint64            // all of these have to confirm this directory
	joins     bool                // and a majority of those who vote now
	voted     []uint64            // the voters when this member asked, if it joins
	confirmed map[uint64][]uint64 // the members that have confirmed, and the other voters, as each of them says
	began     time.Time
	warned    time.Time
}

// wireGreeting is the first byte of a greeting. Package replica has the numbers below 64.
const wireGreeting = 64

// greeting is what members tell each other of their data directories, in JSON: first of all
// when a connection is made, and again while one of them waits to be admitted.
type greeting struct {
	Origin origin `json:"from"`
	// First says that the sender has done nothing yet from its directory.
	First bool `json:"first,omitempty"`
	// Yours is what the sender remembers of the receiver, durably. Refused says that the
	// receiver's directory is another one.
	Yours   origin `json:"yours"`
	Refused bool   `json:"refused,omitempty"`
	// Voters are who votes, by what the sender has applied.
	Voters []uint64 `json:"voters,omitempty"`
	// Ask wants an answer.
	Ask bool `json:"ask,omitempty"`
}

// errForgetful is matched by the errors of a member whose data directory does not know all
// that the member has done.
var errForgetful = errors.New("this data directory lacks records that the member made")

// admit prepares the admission of this start.
func (n *Node) admit(boot uint64) error {
	a, m := &n.admission, n.directories.get()
	a.boot, a.me = boot, origin{Directory: n.storage.log.ID(), Boot: boot}
	a.confirmed = map[uint64][]uint64{}
	a.began, a.warned = time.Now(), time.Now()
	if m.Own != 0 && m.Own != a.me.Directory {
		return fmt.Errorf("node: the log in %s is not the one that %s belongs to: %w; %s", n.cfg.DataDir, directoriesFile, errForgetful, n.replaceAdvice())
	}
	if id := n.storage.identity; n.storage.founding && id.Joined {
		a.joins, a.voted = true, id.witnesses()
	} else if n.storage.founding {
		a.need = id.witnesses()
	}
	if m.Doubt != nil { // which withdraws no other condition
		a.need = append(others(a.need, 0), others(m.Doubt.By, 0)...)
		a.me.Boot = m.Doubt.Boot
	}
	if !a.enough() {
		n.logger.Info("this member waits for others to confirm that its data directory is the right one", "members", hexes(a.wanted()), "a majority of the voters suffices", a.joins)
		return nil
	}
	a.open.Store(true)
	return nil
}

// witnesses are the members that have to confirm, before a member does anything from a new
// data directory, that it had no other. Of one that joined they are who voted when it asked;
// those who vote now may do it in their place.
func (id identity) witnesses() (list []uint64) {
	if id.Joined {
		return id.Witnesses
	}
	for _, v := range id.Voters {
		if v != id.Member {
			list = append(list, v)
		}
	}
	return list
}

// wanted are those that are asked first.
func (a *admission) wanted() []uint64 { return others(append(others(a.need, 0), a.voted...), 0) }

// enough reports whether this directory is confirmed. Of the voters those count together
// that say the same of who votes: any two majorities of these have a member in common.
func (a *admission) enough() bool {
	if slices.ContainsFunc(a.need, func(id uint64) bool { return a.confirmed[id] == nil }) {
		return false
	}
	if !a.joins {
		return true
	}
	for _, voters := range a.confirmed {
		agree := 0
		for _, id := range voters {
			if slices.Equal(a.confirmed[id], voters) {
				agree++
			}
		}
		if len(voters) > 0 && agree >= majorityOf(len(voters)) {
			return true
		}
	}
	return false
}

func majorityOf(n int) int { return n/2 + 1 }

// greet tells a member the place this one was started from, and this one's memory of it.
func (n *Node) greet(to machine.NodeID, g greeting) {
	if n.peers != nil {
		n.peers.Send(to, n.greeting(to, g))
	}
}

// greeting encodes a greeting to a member.
func (n *Node) greeting(to machine.NodeID, g greeting) []byte {
	a := &n.admission
	a.mu.Lock()
	g.Origin = a.me
	a.mu.Unlock()
	g.First = n.storage.founding && !a.open.Load()
	g.Yours = n.directories.get().Known[uint64(to)]
	g.Voters = n.applied().roster.ConfState().GetVoters()
	p, err := json.Marshal(g)
	if err != nil {
		panic(err) // numbers
	}
	return append([]byte{wireGreeting}, p...)
}

// greeted takes another member's greeting.
func (n *Node) greeted(from machine.NodeID, p []byte) {
	var g greeting
	if err := json.Unmarshal(p, &g); err != nil || g.Origin.Directory == 0 {
		n.logger.Warn("an invalid greeting", "from", hexOf(uint64(from)), "err", err)
		return
	}
	if err := n.judged(from, g); err != nil {
		n.fail(err)
		return
	}
	ro := n.applied().roster
	a := &n.admission
	member := ro.Find(uint64(from))
	who := parties{started: a.open.Load(), joined: !n.isFounder(n.id), founder: n.isFounder(from), named: member.GetName() != ""}
	if !who.founder && member == nil && !a.mayConfirm(from) {
		return // it is told when this member knows it
	}
	switch n.directories.get().judge(uint64(from), g, who) {
	case forgetful:
		if _, was := a.refused.Swap(from, true); !was {
			n.logger.Error("another member's data directory lacks its earlier promises; its messages are ignored", "member", hexOf(uint64(from)),
				"advice", "its data directory was emptied, or an older copy put in its place: remove the member, and add it again with an empty directory")
		}
		n.greet(from, greeting{Refused: true})
		return
	case unlikely:
		n.logger.Warn("a member greets from a data directory that should not be new, which this one does not confirm", "member", hexOf(uint64(from)))
		return
	case news:
		if err := n.directories.met(uint64(from), g.Origin, ro.Removed); err != nil {
			n.fail(err)
			return
		}
	}
	a.refused.Delete(from)
	if g.Yours.Directory != 0 {
		if err := n.confirmedBy(uint64(from), g); err != nil {
			n.fail(err)
			return
		}
	}
	if g.Ask {
		n.greet(from, greeting{})
	}
}

// isFounder reports whether a member is one of the first.
func (n *Node) isFounder(id machine.NodeID) bool {
	return slices.ContainsFunc(n.founders, func(m *pb.Member) bool { return m.ID == uint64(id) })
}

// judged looks at what another member remembers of this one, and returns an error if that
// is more than this one knows.
func (n *Node) judged(by machine.NodeID, g greeting) error {
	a := &n.admission
	a.mu.Lock()
	me := a.me
	a.mu.Unlock()
	switch {
	case g.Yours.Directory == 0 && !g.Refused, g.Yours.Directory != 0 && me.follows(g.Yours):
		return nil
	case g.Yours.Directory == 0:
		return fmt.Errorf("node: member %x, which has no data here, has run before: by member %x its cluster began long ago: %w; %s", uint64(n.id), uint64(by), errForgetful, n.replaceAdvice())
	case g.Yours.Directory != me.Directory:
		return fmt.Errorf("node: member %x has run before, from another data directory (%x) than this one (%x), as member %x remembers: %w; %s",
			uint64(n.id), g.Yours.Directory, me.Directory, uint64(by), errForgetful, n.replaceAdvice())
	}
	// Its next start would have a greater number. So what was heard now is remembered.
	err := n.directories.change(func(m *memory) {
		if m.Doubt == nil {
			m.Doubt = &doubt{Boot: me.Boot}
		}
		if !slices.Contains(m.Doubt.By, uint64(by)) {
			m.Doubt.By = append(slices.Clone(m.Doubt.By), uint64(by))
		}
	})
	return errors.Join(fmt.Errorf("node: this data directory of member %x is an older copy, or one of two: it was started %d times, and member %x has heard of start %d: %w; %s",
		uint64(n.id), me.Boot>>32, uint64(by), g.Yours.Boot>>32, errForgetful, n.replaceAdvice()), err)
}

// replaceAdvice says what to do with a member that has lost data.
func (n *Node) replaceAdvice() string {
	id, url := uint64(n.id), n.cfg.Peers[n.cfg.Name]
	return fmt.Sprintf("check --data-dir; if the member's data is lost, remove it and add it again: `tenure member remove %x`, `tenure member add %s --peer-urls=%s`, then start it with an empty --data-dir and --initial-cluster-state existing", id, n.cfg.Name, url)
}

// mayConfirm reports whether a member counts for this one before its log says so: one that
// joins has no log yet, and hears of the voters from others.
func (a *admission) mayConfirm(from machine.NodeID) bool {
	return !a.open.Load() && (a.joins || slices.Contains(a.need, uint64(from)))
}

// confirmedBy notes that another member remembers this directory as the one of this
// member, and lets this one take part when enough of them do.
func (n *Node) confirmedBy(id uint64, g greeting) error {
	a := &n.admission
	if !a.confirm(id, g, uint64(n.id)) {
		return nil
	}
	// A disk may take long, and others ask meanwhile which members have confirmed.
	if err := n.directories.change(func(m *memory) { m.Admitted, m.Doubt = true, nil }); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.me.Boot = a.boot
	if !a.open.Swap(true) {
		n.logger.Info("the data directory is confirmed, and this member takes part", "after", time.Since(a.began))
	}
	return nil
}

// confirm notes a confirmation, and reports whether there are enough.
func (a *admission) confirm(id uint64, g greeting, self uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.open.Load(), !a.joins && !slices.Contains(a.need, id):
		return false
	case a.joins && g.First: // it may have forgotten what it confirmed
		return false
	}
	voters := g.Voters
	if len(voters) == 0 { // an earlier version, which does not say
		voters = a.voted
	}
	a.confirmed[id] = others(voters, self)
	return a.enough()
}

// others are the members of a list but one, each once, in order. The result is not nil.
func others(list []uint64, but uint64) []uint64 {
	out := make([]uint64, 0, len(list))
	for _, id := range list {
		if id != but {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// look asks the members that have yet to confirm. A member that joins also asks those that
// have confirmed, because the voters may have changed.
func (a *admission) look(n *Node, now time.Time) {
	if a.open.Load() {
		return
	}
	a.mu.Lock()
	missing := slices.DeleteFunc(a.wanted(), func(id uint64) bool { return a.confirmed[id] != nil })
	confirmed := slices.Sorted(maps.Keys(a.confirmed))
	warn := now.Sub(a.warned) > 10*n.cfg.ElectionTimeout
	if warn {
		a.warned = now
	}
	a.mu.Unlock()
	ask := missing
	if a.joins {
		ask = n.acquaintances()
	}
	for _, id := range ask {
		n.greet(machine.NodeID(id), greeting{Ask: true})
	}
	switch {
	case warn && a.joins:
		n.logger.Warn("this member still waits for a majority of the voters to confirm its data directory", "confirmed by", hexes(confirmed), "asked", hexes(ask),
			"advice", "start them; if they are not those asked, name them in --initial-cluster and start this member again; if this one has run before, its data is gone: "+n.replaceAdvice())
	case warn:
		n.logger.Warn("this member still waits for others to confirm its data directory", "missing", hexes(missing),
			"advice", "start them: a new cluster begins when all of its first members have met once; if this one has run before, its data is gone: "+n.replaceAdvice())
	}
}

func hexOf(id uint64) string { return fmt.Sprintf("%x", id) }

func hexes(ids []uint64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = hexOf(id)
	}
	return strings.Join(list, " ")
}

// listensTo reports whether another member's messages count.
func (n *Node) listensTo(from machine.NodeID) bool {
	_, refused := n.admission.refused.Load(from)
	return n.admission.open.Load() && !refused
}
