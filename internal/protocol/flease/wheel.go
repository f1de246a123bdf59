package flease

import (
	"math/bits"

	"github.com/tenure-lease/tenure/internal/machine"
)

// wheel keeps one alarm for each of many small numbers: a hierarchical timing wheel, so
// that setting and ringing cost the same whether there are ten or a million.
// A tick is about a millisecond; nothing rings early.
type wheel struct {
	links []link
	heads [wheelLevels][wheelSlots]int32 // first of each slot's ring, plus 1
	full  [wheelLevels]uint64            // which slots have some
	cur   int64                          // the tick that was rung last
}

const (
	tickBits    = 20 // of nanoseconds
	wheelBits   = 6
	wheelSlots  = 1 << wheelBits
	wheelLevels = 6
)

// link is an alarm's place in the ring of its slot.
type link struct {
	at         int64 // tick
	next, prev int32
	level      int8 // -1 if it is not set
	slot       int8
}

// set has id ring at a time, or a tick from now if that is past.
func (w *wheel) set(id int32, at machine.Mono) {
	if at > machine.Never>>1 {
		w.clear(id)
		return
	}
	w.setTick(id, max((int64(at)+1<<tickBits-1)>>tickBits, w.cur+1))
}

// setTick does so for a tick, which may be the present one.
func (w *wheel) setTick(id int32, tick int64) {
	for int(id) >= len(w.links) {
		w.links = append(w.links, link{level: -1})
	}
	w.clear(id)
	w.put(id, max(tick, w.cur))
}

// link is the alarm of id.
func (w *wheel) link(id int32) link {
	if int(id) >= len(w.links) {
		return link{level: -1}
	}
	return w.links[id]
}

func (w *wheel) put(id int32, tick int64) {
	level, d := 0, tick-w.cur
	for level < wheelLevels-1 && d >= 1<<(wheelBits*(level+1)) {
		level++
	}
	slot := tick >> (wheelBits * level) & (wheelSlots - 1)
	if level == wheelLevels-1 && d >= 1<<(wheelBits*wheelLevels) {
		slot = (w.cur>>(wheelBits*level) - 1) & (wheelSlots - 1) // as far away as there is
	}
	l := &w.links[id]
	*l = link{at: tick, next: id, prev: id, level: int8(level), slot: int8(slot)}
	head := &w.heads[level][slot]
	if *head == 0 {
		*head = id + 1
		w.full[level] |= 1 << slot
		return
	}
	first := &w.links[*head-1]
	last := first.prev
	l.next, l.prev = *head-1, last
	w.links[last].next = id
	first.prev = id
}

// clear takes id's alarm back.
func (w *wheel) clear(id int32) {
	if int(id) >= len(w.links) || w.links[id].level < 0 {
		return
	}
	l := &w.links[id]
	head := &w.heads[l.level][l.slot]
	switch {
	case l.next == id:
		*head = 0
		w.full[l.level] &^= 1 << l.slot
	default:
		w.links[l.prev].next, w.links[l.next].prev = l.next, l.prev
		if *head == id+1 {
			*head = l.next + 1
		}
	}
	l.level = -1
}

// ring returns one that is due, and takes its alarm back.
func (w *wheel) ring(now machine.Mono) (id int32, ok bool) {
	end := int64(now) >> tickBits
	for w.cur <= end {
		slot := w.cur & (wheelSlots - 1)
		if head := w.heads[0][slot]; head != 0 {
			w.clear(head - 1)
			return head - 1, true
		}
		if w.cur == end {
			break
		}
		w.advance(end)
	}
	return 0, false
}

// advance goes to the next tick at which there is something to do, at most to end.
func (w *wheel) advance(end int64) {
	w.cur = min(end, max(w.nextTick(), w.cur+1))
	for level := 1; level < wheelLevels && w.cur&(1<<(wheelBits*level)-1) == 0; level++ {
		w.spread(level, w.cur>>(wheelBits*level)&(wheelSlots-1))
	}
}

// spread moves what is in a slot to the levels below.
func (w *wheel) spread(level int, slot int64) {
	for w.heads[level][slot] != 0 {
		id := w.heads[level][slot] - 1
		at := w.links[id].at
		w.clear(id)
		w.put(id, max(at, w.cur)) // below, or, if it is beyond the wheel, into the slot before
	}
}

// next is when ring should be called next: not after the first alarm, rarely before.
func (w *wheel) next() machine.Mono {
	if tick := w.nextTick(); tick < never {
		return machine.Mono(tick << tickBits)
	}
	return machine.Never
}

const never = int64(machine.Never >> tickBits)

func (w *wheel) nextTick() int64 {
	best := never
	for level := range wheelLevels {
		if w.full[level] == 0 {
			continue
		}
		at := w.cur >> (wheelBits * level)
		turned := bits.RotateLeft64(w.full[level], -int(at&(wheelSlots-1)))
		d := int64(bits.TrailingZeros64(turned))
		if level > 0 && d == 0 { // this very slot, next time round
			d = wheelSlots
			if rest := turned &^ 1; rest != 0 {
				d = int64(bits.TrailingZeros64(rest))
			}
		}
		best = min(best, (at+d)<<(wheelBits*level))
	}
	return best
}
