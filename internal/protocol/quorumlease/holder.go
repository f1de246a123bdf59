package quorumlease

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Holder keeps the promises that a member has received, and computes until when it may
// read.
type Holder struct {
	cfg      Config
	seq      uint64
	returned uint64 // up to which they were given back
	sent     []sent // requests that may be answered yet, oldest first
	promises []got  // by grantor
	next     machine.Mono
	ttl      time.Duration // as promised last
}

type sent struct {
	seq uint64
	at  machine.Mono
}

type got struct {
	from  machine.NodeID
	seq   uint64
	until machine.Mono
	stamp Stamp
	met   bool
}

// NewHolder returns a Holder without promises.
func NewHolder(cfg Config) *Holder { return &Holder{cfg: cfg, ttl: cfg.TTL} }

// Ask returns a request to all other voters. The promises that answer it count from now, so
// the request must leave now or later (R10).
func (h *Holder) Ask(now machine.Mono) Request {
	h.seq++
	for len(h.sent) > 0 && now.Sub(h.sent[0].at) > MaxTTL { // a promise for it would be over
		h.sent = h.sent[1:]
	}
	h.sent = append(h.sent, sent{h.seq, now})
	h.next = now.Add(renewEvery(min(h.cfg.TTL, h.ttl)))
	return Request{Boot: h.cfg.Boot, Seq: h.seq}
}

// Sent returns when a request left. It returns false once no answer can count any more.
func (h *Holder) Sent(seq uint64) (at machine.Mono, ok bool) {
	n := slices.IndexFunc(h.sent, func(s sent) bool { return s.seq == seq })
	if n < 0 {
		return 0, false
	}
	return h.sent[n].at, true
}

// Next returns when to ask again.
func (h *Holder) Next() machine.Mono { return h.next }

func (h *Holder) find(grantor machine.NodeID) (int, bool) {
	return slices.BinarySearchFunc(h.promises, grantor, func(g got, id machine.NodeID) int { return cmp.Compare(g.from, id) })
}

// from returns the place of a grantor's promise, to be overwritten.
func (h *Holder) from(grantor machine.NodeID) *got {
	i, known := h.find(grantor)
	if !known {
		h.promises = slices.Insert(h.promises, i, got{from: grantor})
	}
	return &h.promises[i]
}

// Promised takes a promise. It counts from when its request was sent, for the time
// that it carries, once the log has reached its stamp.
func (h *Holder) Promised(from machine.NodeID, p Promise, log Log) {
	if p.Boot != h.cfg.Boot || p.Seq <= h.returned || p.TTL <= 0 || p.TTL > MaxTTL {
		return
	}
	n := slices.IndexFunc(h.sent, func(s sent) bool { return s.seq == p.Seq })
	if n < 0 {
		return
	}
	if h.Take(from, p.Seq, h.sent[n].at.Add(believed(p.TTL)), p.Stamp, log) {
		h.ttl = p.TTL
	}
}

// Take has a promise count until then, however it came about, and reports false for one that
// comes after a later one: an earlier one of the same chain, or of one that was broken.
func (h *Holder) Take(from machine.NodeID, seq uint64, until machine.Mono, stamp Stamp, log Log) bool {
	g := h.from(from)
	if seq <= g.seq {
		return false
	}
	*g = got{from: from, seq: seq, until: until, stamp: stamp, met: g.met && g.stamp == stamp}
	h.Reached(log)
	return true
}

// Renumbered records that a grantor numbers its promises anew. Its earlier promises still hold.
func (h *Holder) Renumbered(from machine.NodeID) {
	if i, known := h.find(from); known {
		h.promises[i].seq = 0
	}
}

// Reached reports that the log has grown, or that a leader has vouched for more of it.
func (h *Holder) Reached(log Log) {
	for i := range h.promises {
		g := &h.promises[i]
		g.met = g.met || log.reaches(g.stamp)
	}
}

// Until returns when the lease ends. Before that time, in each of the memberships that
// count, a majority of the voters is bound to this member by promises (R6); the member
// itself counts if it is a voter. A member that finds itself removed has no lease (R23).
func (h *Holder) Until(members Memberships) machine.Mono {
	if !members.Newest().Has(h.cfg.Self) {
		return 0
	}
	until := machine.Never
	for _, m := range members {
		until = min(until, h.until(m.Voters))
	}
	return until
}

func (h *Holder) until(voters []machine.NodeID) machine.Mono {
	need := Majority(len(voters))
	if slices.Contains(voters, h.cfg.Self) {
		if need--; need == 0 {
			return machine.Never
		}
	}
	var room [8]machine.Mono // so that few promises need no memory
	ends := room[:0]
	for _, g := range h.promises {
		if g.met && g.from != h.cfg.Self && slices.Contains(voters, g.from) {
			ends = append(ends, g.until)
		}
	}
	if len(ends) < need {
		return 0
	}
	slices.SortFunc(ends, func(a, b machine.Mono) int { return cmp.Compare(b, a) })
	return ends[need-1]
}

// Majority returns the size of a majority of n.
func Majority(n int) int { return n/2 + 1 }

// GiveUp forgets all promises and returns the message that gives them back. The message may
// leave only when no reader uses the lease any more.
func (h *Holder) GiveUp() Return {
	h.returned, h.promises, h.sent, h.next = h.seq, nil, nil, 0
	return Return{Boot: h.cfg.Boot, Seq: h.seq}
}
