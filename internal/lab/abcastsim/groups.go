package abcastsim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// change draws the next change of the members: a new one, one less, one in the place of
// another, or an impossible one.
func (p *play) change() (c abcast.Change) {
	w, g := p.w, p.epochs.last
	some := func() machine.NodeID { return g.Members[w.Rand.IntN(len(g.Members))].ID }
	if len(p.members) < 12 && w.Chance(0.6) {
		k := p.addHost(machine.NodeID(len(p.members) + 1))
		k.join = true
		w.After(w.Between(0, 2*time.Second), k.start)
		c.Add = []abcast.Member{{ID: k.host.ID}}
	}
	if len(g.Members) > 1 && w.Chance(0.6) {
		c.Remove = append(c.Remove, some())
		if w.Chance(0.2) {
			c.Remove = append(c.Remove, some()) // maybe the same
		}
	}
	if len(g.Removed) > 0 && w.Chance(0.1) {
		c.Add = append(c.Add, g.Removed[0])
	}
	return c
}

// established lets removed members die, at any time from when the first member says that they
// are not needed any more.
func (p *play) established(g abcast.Group) {
	for _, k := range p.members {
		if g.Gone(k.host.ID) && !k.dead && p.w.Chance(0.5) {
			p.w.Note("%s is switched off", k.name)
			p.w.Count("removed", 1)
			k.dead = true
			if k.host.Up() {
				k.host.Crash()
			}
		}
	}
}
