package abcast

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// pending is what waits to be ordered, in order of arrival.
type pending struct {
	list  []*waiting
	byKey map[key]*waiting
	bytes int
	// proposed is how many of the list are proposed to an undecided instance.
	proposed int
	// leader is the only member that gets new messages, and leads is true if that is this
	// member.
	leader machine.NodeID
	leads  bool
}

type key struct {
	client machine.ID
	seq    uint64
}

// waiting is a message that was not ordered yet.
type waiting struct {
	Message
	own   bool         // it was broadcast here
	done  bool         // it is ordered
	alone bool         // it was sent to pending.leader alone: the others do not have it
	in    uint64       // the undecided instance that it was proposed to from here; 0 if none
	tries int          // instances that it was proposed to in vain since it was sent to all
	relay machine.Mono // when it is sent to all (again)
	again int          // how often the time to that has doubled
}

// againMax is how often the time from sending a message to sending it again doubles.
const againMax = 2

func (p *pending) get(client machine.ID, seq uint64) *waiting { return p.byKey[key{client, seq}] }

func (p *pending) add(w *waiting) {
	p.list = append(p.list, w)
	p.byKey[key{w.Client, w.Seq}] = w
	p.bytes += w.size()
}

// drop removes messages that were ordered or never will be. It returns messages of
// forgotten clients.
func (p *pending) drop(o *order) (forgotten []*waiting) {
	p.list = slices.DeleteFunc(p.list, func(w *waiting) bool {
		due := o.due(w.Client)
		switch {
		case w.done || w.Seq < due:
		case due == 0:
			forgotten = append(forgotten, w)
		default:
			return false
		}
		delete(p.byKey, key{w.Client, w.Seq})
		p.bytes -= w.size()
		if w.in != 0 {
			p.proposed--
		}
		return true
	})
	return forgotten
}

// free gives back what was proposed to an instance and not ordered there.
func (p *pending) free(instance uint64) {
	for _, w := range p.list {
		if w.in != 0 && w.in <= instance {
			w.in = 0
			w.tries++
			p.proposed--
		}
	}
}

// clear drops all.
func (p *pending) clear() { *p = pending{byKey: map[key]*waiting{}} }

// lost removes what has waited for its Relay and cannot be ordered: a message before it is
// not here. A member that has all of them sends them again. If none does, this message
// would stay for ever, and with others like it take the place of messages that can be
// ordered. None of them was broadcast here: own messages are in turn, and their
// predecessors stay until they are ordered.
func (p *pending) lost(now machine.Mono, o *order) {
	turns := map[machine.ID]uint64{} // up to which number a client's messages are here, without a gap
	p.list = slices.DeleteFunc(p.list, func(w *waiting) bool {
		if now < w.relay || w.in != 0 {
			return false
		}
		upto, known := turns[w.Client]
		if !known {
			for upto = o.due(w.Client) - 1; p.get(w.Client, upto+1) != nil; upto++ {
			}
			turns[w.Client] = upto
		}
		if w.Seq <= upto {
			return false
		}
		delete(p.byKey, key{w.Client, w.Seq})
		p.bytes -= w.size()
		return true
	})
}

// follows reports whether a message may be broadcast here: nothing is missing between what is
// ordered of its client and this one. It need not be looked beyond one that was broadcast
// here.
func (p *pending) follows(client machine.ID, seq uint64, o *order) bool {
	for due := o.due(client); due > 0 && seq > due; seq-- {
		w := p.get(client, seq-1)
		if w == nil {
			return false
		}
		if w.own {
			return true
		}
	}
	return seq > 0 && seq == o.due(client)
}

// turn reports whether a message may be proposed: the one before it is ordered, or was
// proposed from here to an instance that is not decided, maybe to the same.
func (p *pending) turn(w *waiting, o *order) bool {
	before := p.get(w.Client, w.Seq-1)
	return o.accepts(w.Client, w.Seq) || before != nil && before.in != 0
}

// batch proposes what can be ordered to an instance: of each client the messages in turn,
// each to one instance at a time, within the bounds. Messages that were sent only to the
// leader are left to it. Those for which an instance is begun go first: if the others
// filled it, it would be begun for them again and again.
func (p *pending) batch(instance uint64, o *order, count, size int) (batch []byte) {
	for _, again := range [...]bool{false, true} {
		for _, w := range p.list {
			if w.in != 0 || (w.tries >= maxTries) != again || w.alone && !p.leads || !p.turn(w, o) {
				continue
			}
			if count == 0 || size < w.size() {
				return batch
			}
			batch = appendMessage(batch, w.Message)
			w.in = instance
			p.proposed++
			count--
			size -= w.size()
		}
	}
	return batch
}

// maxTries is how many instances in a row are begun for a message that others do not
// propose: they may not have it, and would take part in empty ones until it is sent
// again. It is proposed to those that are begun for other reasons.
const maxTries = 3

// any reports whether there is something for which to begin an instance.
func (p *pending) any(o *order) bool {
	return p.proposed < len(p.list) && slices.ContainsFunc(p.list, func(w *waiting) bool { return w.in == 0 && w.tries < maxTries && (!w.alone || p.leads) && p.turn(w, o) })
}
