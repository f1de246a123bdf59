package etcdapi

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// ReadLeaseStatus is what a member knows of read leases; package quorumlease explains
// them. The leader knows most, for it hears who is bound to whom.
type ReadLeaseStatus struct {
	Policy string        // the cluster's: one of package quorumlease
	Order  string        // strict: a holder holds all keys; key: those of its Keys
	TTL    time.Duration // how long this member's promises last
	// Left is for how much longer this member reads by itself, unless it renews
	// its lease; 0 if it has none. Alone it has no end and is longer than any TTL.
	Left time.Duration

	Committed uint64 // index up to which the log is replicated
	Released  uint64 // index up to which its entries are answered and seen

	// Holders are the members to which some voter is bound as far as this member
	// knows. It need not be among them itself: Left says enough.
	Holders []ReadLeaseHolder
	// Stalled are members whose leases nobody renews until they have caught up.
	Stalled []uint64

	// Cells say who holds which keys, each as people write it; nil if each holder holds
	// all keys.
	Cells func() []string

	HeldUp   uint64        // entries that are committed and not released
	Waiting  time.Duration // for how long the first of them has been held up
	WaitsFor []uint64      // holders that lack some of these, of keys that they hold

	// Linearizable reads since the member started: answered under its lease; by the
	// leader once it had asked the others; by a follower once it had asked the
	// leader.
	LocalReads, RoundReads, ForwardedReads uint64

	// Clock is what was odd about this machine's clocks, nil if nothing was.
	Clock *ClockStatus
}

// ClockStatus is what a member has found odd about its clocks since it started.
type ClockStatus struct {
	Doubted          bool   // the clock of leases cannot be trusted now
	Doubts           uint64 // looks that found that
	Pauses, Suspends uint64 // of the process, and the machine
	Last             string // the last of these, in words
	Ago              time.Duration
}

// ReadLeaseHolder is a member to which some voter is bound.
type ReadLeaseHolder struct {
	Member    uint64
	Boot      uint64        // tells its lives apart
	Grantors  []uint64      // the voters that are bound to it, as far as is known
	Has       uint64        // index up to which it has the log; 0 if not known
	Keys      []KeyRange    // what it holds, in order and apart; none means all keys
	RoundTrip time.Duration // distance from this member; 0 if not known
	// Partial says that it does not hold all keys, whether it has Keys or not: which of
	// those that go by their hash it holds, Covers tells.
	Partial bool
	Covers  func(KeyRange) bool // nil: as Keys say
}

// KeyRange is as in etcd's requests: without End it is one key, and an End of one
// zero byte means all keys from Key on.
type KeyRange struct{ Key, End []byte }

// bounds are the first key of the range and the first behind it, nil if none is.
func (r KeyRange) bounds() (from, to []byte) {
	switch {
	case len(r.End) == 0:
		return r.Key, append(slices.Clone(r.Key), 0)
	case len(r.End) == 1 && r.End[0] == 0:
		return r.Key, nil
	}
	return r.Key, r.End
}

// holds reports whether the lease covers a range.
func (h *ReadLeaseHolder) holds(r KeyRange) bool {
	if h.Covers != nil {
		return h.Covers(r)
	}
	if len(h.Keys) == 0 {
		return !h.Partial
	}
	from, to := r.bounds()
	for _, k := range h.Keys {
		begin, end := k.bounds()
		if bytes.Compare(begin, from) > 0 {
			return false
		}
		if end == nil || to != nil && bytes.Compare(to, end) <= 0 {
			return true
		}
		if bytes.Compare(end, from) > 0 {
			from = end // the rest has to follow at once
		}
	}
	return false
}

// reader reports whether a majority of the voters is bound to the holder, itself
// included if it is one. Of itself a member knows until when.
func (st *ReadLeaseStatus) reader(h *ReadLeaseHolder, self uint64, voters []uint64) bool {
	if h.Member == self {
		return st.Left > 0
	}
	bound := 0
	for _, v := range voters {
		if v == h.Member || slices.Contains(h.Grantors, v) {
			bound++
		}
	}
	return bound >= quorumlease.Majority(len(voters))
}

// withSelf adds the member itself to the holders if it has a lease.
func (st *ReadLeaseStatus) withSelf(self uint64) {
	is := func(h ReadLeaseHolder) bool { return h.Member == self }
	if st.Left > 0 && !slices.ContainsFunc(st.Holders, is) {
		st.Holders = append(slices.Clone(st.Holders), ReadLeaseHolder{Member: self})
	}
	slices.SortFunc(st.Holders, func(a, b ReadLeaseHolder) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Boot, b.Boot))
	})
}

// nearest sorts holders by their distance from a member.
func nearest(holders []ReadLeaseHolder, self uint64) {
	distance := func(h ReadLeaseHolder) time.Duration {
		switch {
		case h.Member == self:
			return -1
		case h.RoundTrip == 0:
			return 1<<63 - 1
		}
		return h.RoundTrip
	}
	slices.SortStableFunc(holders, func(a, b ReadLeaseHolder) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a.Member, b.Member))
	})
}
