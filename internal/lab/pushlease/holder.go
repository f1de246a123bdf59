package pushlease

import (
	"cmp"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// holder keeps the promises that were sent to a member (Figure 5), and computes until
// when it may read.
type holder struct {
	cfg      quorumlease.Config
	held     *quorumlease.Holder // the promise that counts; it asks for nothing
	grantors []pushSource        // by member
}

// pushSource records which messages of a grantor a holder has acknowledged.
type pushSource struct {
	member machine.NodeID
	boot   uint64
	acks   []sent // that its promises may refer to, oldest first
}

// newHolder returns a Holder without promises.
func newHolder(cfg quorumlease.Config) *holder {
	return &holder{cfg: cfg, held: quorumlease.NewHolder(cfg)}
}

// source finds a grantor in its present life; nil if the life is over.
func (h *holder) source(from machine.NodeID, boot uint64) *pushSource {
	i, known := slices.BinarySearchFunc(h.grantors, from, func(s pushSource, id machine.NodeID) int { return cmp.Compare(s.member, id) })
	if !known {
		h.grantors = slices.Insert(h.grantors, i, pushSource{member: from})
	}
	s := &h.grantors[i]
	if boot > s.boot { // its earlier promises still hold, and its numbers begin anew
		*s = pushSource{member: from, boot: boot}
		h.held.Renumbered(from)
	}
	if boot < s.boot {
		return nil
	}
	return s
}

// noteSent records an acknowledgment. If one is sent twice, its first time counts: the grantor
// may have received that copy, and counts from then.
func (s *pushSource) noteSent(now machine.Mono, seq uint64) {
	for len(s.acks) > 0 && now.Sub(s.acks[0].at) > maxGrace+quorumlease.MaxTTL {
		s.acks = s.acks[1:]
	}
	if !slices.ContainsFunc(s.acks, func(a sent) bool { return a.seq == seq }) {
		s.acks = append(s.acks, sent{seq, now})
	}
}

// guarded takes a guard and returns its acknowledgment, which must leave now or later.
func (h *holder) guarded(now machine.Mono, from machine.NodeID, m Guard) (ack GuardAck, ok bool) {
	s := h.source(from, m.Boot)
	if s == nil {
		return ack, false
	}
	s.noteSent(now, m.Seq)
	return GuardAck{Boot: m.Boot, To: h.cfg.Boot, Seq: m.Seq}, true
}

// promised takes a promise and returns its acknowledgment. One that comes too late, or
// after a later one, or that refers to nothing which this life of the holder has
// acknowledged, does not count and is not acknowledged.
func (h *holder) promised(now machine.Mono, from machine.NodeID, p Pushed, log quorumlease.Log) (reply PromiseReply, ok bool) {
	if p.To != h.cfg.Boot || p.Lease <= 0 || p.Lease > quorumlease.MaxTTL || p.Guard > quorumlease.MaxTTL {
		return reply, false
	}
	s := h.source(from, p.Boot)
	if s == nil {
		return reply, false
	}
	n := slices.IndexFunc(s.acks, func(a sent) bool { return a.seq == p.Acked })
	if n < 0 || now.Sub(s.acks[n].at) >= quorumlease.Believed(p.Since+p.Guard) {
		return reply, false
	}
	if !h.held.Take(from, p.Seq, now.Add(quorumlease.Believed(p.Lease)), p.Stamp, log) {
		return reply, false
	}
	s.acks = s.acks[n:] // none that is older is referred to any more
	s.noteSent(now, p.Seq)
	return PromiseReply{Boot: p.Boot, To: h.cfg.Boot, Seq: p.Seq}, true
}

// Reached does the same as quorumlease.Holder.Reached.
// Until returns the same as quorumlease.Holder.Until.
func (h *holder) Reached(log quorumlease.Log) { h.held.Reached(log) }

func (h *holder) Until(members quorumlease.Memberships) machine.Mono { return h.held.Until(members) }
