package flease

import (
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// viewChange is a view that is not complete yet. Its cells that differ from those of the
// view before vote in neither.
type viewChange struct {
	lay    *layout
	shut   [slots]bool      // whose cell changes: for good, also if another view comes instead
	closed bool             // enough have closed; the quarantine between the views runs
	who    []machine.NodeID // the members that have closed, ascending
	open   silence
	tell   machine.Mono // when to tell others again
}

// views are the view in force and the one that may come after it.
type views struct {
	lay   *layout
	since []uint64 // by slot: the epoch from which on its cell has been what it is
	next  *viewChange
}

func newViews(v View, self machine.NodeID) views {
	vs := views{lay: newLayout(v, self), since: make([]uint64, slots)}
	for s := range vs.since {
		vs.since[s] = v.Epoch
	}
	return vs
}

// votes reports whether our acceptor serves a slot for a request of an epoch: one under
// which the slot's cell was what it is, and that we know.
func (vs *views) votes(slot int, epoch uint64) bool {
	newest := vs.lay.view.Epoch
	if vs.next != nil {
		newest = vs.next.lay.view.Epoch
	}
	return vs.lay.cells[slot].self >= 0 && epoch >= vs.since[slot] && epoch <= newest && !vs.closed(slot)
}

// closed: the slot is between two cells, and belongs to neither.
func (vs *views) closed(slot int) bool { return vs.next != nil && vs.next.shut[slot] }

// expect begins a change to a view, or to a later one instead of that which was next.
func (p *Peer) expect(v View) {
	n := &viewChange{lay: newLayout(v, p.cfg.Self), tell: p.now.Mono}
	for s := range n.shut {
		n.shut[s] = p.closed(s) || !sameCell(p.lay.cells[s], n.lay.cells[s])
	}
	p.next = n
}

func sameCell(a, b *cellGroup) bool { return slices.Equal(a.members, b.members) }

// changeView begins a change of the membership. Whichever way members change, a majority of
// each old cell stops voting in it first, for good. Then all wait for a quarantine, so that
// no lease of an old cell is left, and the next change cannot begin earlier (F-1). Cells
// that stay as they are go on through it all.
func (p *Peer) changeView(v View) {
	switch {
	case v.Check() != nil:
		p.alert(Alarm{Kind: Disagreement, Why: v.Check().Error()})
	case v.Epoch <= p.lay.view.Epoch || p.next != nil && v.Epoch <= p.next.lay.view.Epoch:
		if !p.knows(v) {
			p.alert(Alarm{Kind: Disagreement, Why: fmt.Sprintf("view %d comes with other members than before", v.Epoch)})
		}
	case v.Epoch != p.lay.view.Epoch+1:
		// Leases of the view between run out only if that view was complete. Only its
		// members know, and they will tell.
		p.alert(Alarm{Kind: Gap, Why: fmt.Sprintf("view %d comes while view %d is active: views go up by one, and each waits until the last is active", v.Epoch, p.lay.view.Epoch)})
	default:
		p.expect(v)
		p.countClosed(p.cfg.Self)
		p.tellNews()
	}
}

// knows reports whether a view is the one that we have under its epoch, or have forgotten.
func (vs *views) knows(v View) bool {
	switch {
	case v.Epoch == vs.lay.view.Epoch:
		return v.digest() == vs.lay.digest
	case vs.next != nil && v.Epoch == vs.next.lay.view.Epoch:
		return v.digest() == vs.next.lay.digest
	}
	return true
}

// countClosed counts a member that has stopped voting in the old cells.
func (p *Peer) countClosed(m machine.NodeID) {
	n := p.next
	at, known := slices.BinarySearch(n.who, m)
	if !known {
		n.who = slices.Insert(n.who, at, m)
	}
	if n.closed {
		return
	}
	for _, g := range p.lay.groups {
		votes := 0
		for _, m := range g.members {
			if _, ok := slices.BinarySearch(n.who, m); ok {
				votes++
			}
		}
		if votes < g.majority && p.changes(g) {
			return
		}
	}
	p.rest()
}

// rest begins the quarantine between two views.
func (p *Peer) rest() {
	if n := p.next; !n.closed {
		n.closed = true
		n.open = silence{mono: p.now.Mono.Add(p.quarantine), wall: p.c + millis(p.quarantine), on: true}
	}
}

// changes reports whether some names of a cell get another.
func (vs *views) changes(g *cellGroup) bool {
	for s := range slots {
		if vs.lay.cells[s] == g && vs.closed(s) {
			return true
		}
	}
	return false
}

// turnView activates the next view once its time has come, and tells others.
func (p *Peer) turnView() {
	n := p.next
	if n == nil {
		return
	}
	if n.closed && p.now.Mono >= n.open.mono && p.c >= n.open.wall {
		p.install(n)
		return
	}
	if p.now.Mono >= n.tell {
		p.tellNews()
	}
}

// install makes a view the one that we vote in.
func (p *Peer) install(n *viewChange) {
	l, old := n.lay, p.lay
	for s := range slots {
		if n.shut[s] {
			p.since[s] = l.view.Epoch
		}
	}
	p.lay, p.next = l, nil
	p.report(Active{View: l.view})
	p.tellAll(old.view, ViewNews{View: l.view, Active: true})
}

// tellNews tells all of both views that we have closed.
func (p *Peer) tellNews() {
	n := p.next
	n.tell = p.now.Mono.Add(p.cfg.poll())
	p.tellAll(p.lay.view, ViewNews{View: n.lay.view, Closed: true})
}

func (p *Peer) tellAll(old View, news ViewNews) {
	if p.silent() {
		return
	}
	to := append(slices.Clone(old.Members), news.View.Members...)
	slices.Sort(to)
	for _, m := range slices.Compact(to) {
		p.tell(m, news)
	}
}

func (p *Peer) tell(m machine.NodeID, news ViewNews) {
	if m != p.cfg.Self && !p.silent() {
		p.lane(m).news = &news
	}
}

// viewed looks at what a batch says of views, and reports whether to look at the rest.
func (p *Peer) viewed(from machine.NodeID, b *Batch) bool {
	if b.View != nil && b.View.View.Check() == nil {
		p.heard(from, b.View)
	}
	switch cur := p.lay.view.Epoch; {
	case b.Epoch == cur && b.Digest != p.lay.digest, p.next != nil && b.Epoch == p.next.lay.view.Epoch && b.Digest != p.next.lay.digest:
		p.alert(Alarm{Kind: Disagreement, Peer: from, Why: fmt.Sprintf("peer %d has other members in view %d: give all peers the same", from, b.Epoch)})
		return false
	case b.Epoch < cur && b.View == nil && len(b.Ops) > 0:
		p.tell(from, ViewNews{View: p.lay.view, Active: true})
	}
	return true
}

func (p *Peer) heard(from machine.NodeID, n *ViewNews) {
	cur := p.lay.view.Epoch
	switch {
	case !p.knows(n.View):
		p.alert(Alarm{Kind: Disagreement, Peer: from, Why: fmt.Sprintf("peer %d has other members in view %d: give all peers the same", from, n.View.Epoch)})
	case n.View.Epoch < cur || n.View.Epoch == cur && n.Closed:
		p.tell(from, ViewNews{View: p.lay.view, Active: true})
	case n.View.Epoch == cur:
	case n.Active:
		// The sender has waited, or it was configured wrongly, with a view that never was
		// complete. So we wait, too, from when we stopped voting in the old cells.
		if p.next == nil || p.next.lay.view.Epoch != n.View.Epoch {
			p.expect(n.View)
		}
		p.rest()
	case n.Closed && n.View.Epoch == cur+1:
		if p.next == nil {
			p.changeView(n.View)
		}
		p.countClosed(from)
	}
}
