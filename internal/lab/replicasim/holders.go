package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// holder is a client that keeps a lease: it grants one, renews it for a while by
// its own clock, then stops, and begins again.
type holder struct {
	c     *Cluster
	id    int
	rate  float64
	stop  bool
	lease *held
}

// Holders sets n lease holders to work.
func (c *Cluster) Holders(n int) {
	for i := range n {
		h := &holder{c: c, id: i, rate: (2*c.w.Rand.Float64() - 1) * c.harsh.rate}
		c.checks.holders = append(c.checks.holders, h)
		h.grant()
	}
}

func (h *holder) grant() {
	w := h.c.w
	w.After(w.Between(0, time.Second), func() {
		m := h.c.anyMember()
		if h.stop {
			return
		}
		if m == nil {
			h.grant()
			return
		}
		l := &held{id: w.Rand.Int64N(1<<40) + 1, rate: h.c.harsh.rate, ttl: time.Duration(2+w.Rand.Int64N(5)) * time.Second}
		h.lease = l
		sent := w.Now()
		l.lastSent = sent
		h.c.checks.leases[l.id] = l
		over := false
		m.propose(&pb.LeaseGrantRequest{ID: l.id, TTL: int64(l.ttl / time.Second)}, func(r replica.Result, err error) {
			if over || err != nil || r.Err != nil {
				return
			}
			over = true
			if w.Now() < l.until(sent, h.rate) {
				l.trust(sent, h.rate)
			}
			m.propose(&pb.PutRequest{Key: fmt.Appendf(nil, "lease/%d", l.id), Lease: l.id}, func(replica.Result, error) {})
			h.renew(l, w.Rand.IntN(12))
		})
		w.After(3*time.Second, func() {
			if !over {
				over = true
				h.grant()
			}
		})
	})
}

// renew sends renewals at a third of the TTL, a number of times, then leaves the
// lease to die.
func (h *holder) renew(l *held, times int) {
	w := h.c.w
	if times == 0 || h.stop {
		w.Note("holder %d leaves lease %d", h.id, l.id)
		h.grant()
		return
	}
	w.After(l.ttl/3, func() {
		if l.gone > 0 && w.Now() > l.believedUntil {
			h.grant()
			return
		}
		if m := h.c.anyMember(); m != nil {
			sent := w.Now()
			l.lastSent = sent
			m.keepAlive(l.id, func(a replica.AnswerLease) {
				h.c.checks.answered(w, l, sent, h.rate, a)
			})
		}
		h.renew(l, times-1)
	})
}
