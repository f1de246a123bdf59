package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// readLeasesOf returns a member's knowledge of read leases.
func readLeasesOf(m member) (etcdapi.ReadLeaseStatus, error) {
	st, ok := m.Status()
	if !ok {
		return etcdapi.ReadLeaseStatus{}, rpctypes.ErrGRPCStopped
	}
	leases := st.ReadLeases
	out := told(st, m.ID())
	if conf := leases.Cells; conf != nil {
		out.Cells = func() []string { return conf.Parts(named(m)) }
	}
	for i := range out.Holders {
		holds(&out.Holders[i], leases.Cells)
		out.Holders[i].RoundTrip = m.RoundTrip(out.Holders[i].Member)
	}
	if c, doubted := m.Clock(); c.Last != "" {
		out.Clock = &etcdapi.ClockStatus{
			Doubted: doubted, Doubts: c.Doubts, Pauses: c.Pauses, Suspends: c.Suspends, Last: c.Last, Ago: time.Since(c.At),
		}
	}
	out.LocalReads, out.RoundReads, out.ForwardedReads = m.ReadCounts()
	return out, nil
}

// told turns a status into the report about read leases of member self.
func told(st node.Status, self uint64) etcdapi.ReadLeaseStatus {
	leases := st.ReadLeases
	out := etcdapi.ReadLeaseStatus{
		// A cluster whose log has no policy yet has no leases either.
		Policy: cmp.Or(string(leases.Policy), string(quorumlease.Off)), Order: "strict",
		TTL: leases.TTL, Left: leases.Left,
		Committed: st.Commit, Released: leases.Released,
		HeldUp: uint64(leases.Held), Waiting: leases.HeldFor,
	}
	if leases.Left < 0 { // alone, it needs no promise
		out.Left = math.MaxInt64
	}
	for _, id := range leases.WaitsFor {
		out.WaitsFor = append(out.WaitsFor, uint64(id))
	}
	for _, id := range leases.Stalled {
		out.Stalled = append(out.Stalled, uint64(id))
	}
	if leases.Policy.ByKey() {
		out.Order = "key"
	}
	for _, h := range leases.Holdings {
		if h.Has == math.MaxUint64 {
			continue // that life of it is over
		}
		holder := etcdapi.ReadLeaseHolder{Member: uint64(h.Member), Boot: h.Boot, Has: h.Has}
		for _, g := range h.Grantors {
			if uint64(g) != self { // a member knows better than others to which holders it is bound
				holder.Grantors = append(holder.Grantors, uint64(g))
			}
		}
		out.Holders = append(out.Holders, holder)
	}
	for _, l := range leases.Bound {
		is := func(h etcdapi.ReadLeaseHolder) bool { return h.Member == uint64(l.Member) && h.Boot == l.Boot }
		at := slices.IndexFunc(out.Holders, is)
		if at < 0 {
			at = len(out.Holders)
			out.Holders = append(out.Holders, etcdapi.ReadLeaseHolder{Member: uint64(l.Member), Boot: l.Boot})
		}
		out.Holders[at].Grantors = append(out.Holders[at].Grantors, self)
	}
	if out.Left > 0 && !slices.ContainsFunc(out.Holders, func(h etcdapi.ReadLeaseHolder) bool { return h.Member == self }) {
		out.Holders = append(out.Holders, etcdapi.ReadLeaseHolder{Member: self})
	}
	for i := range out.Holders {
		slices.Sort(out.Holders[i].Grantors)
	}
	return out
}

// SetReadPolicy sets the policy, or with cells static/key and the holders of keys.
func (b backend) SetReadPolicy(ctx context.Context, policy, cells string) error {
	if cells == "" {
		return b.Node.SetReadPolicy(ctx, policy)
	}
	err := b.SetReadCells(ctx, cells)
	if errors.Is(err, placement.ErrConfiguration) {
		return fmt.Errorf("%w: %w", etcdapi.ErrCells, err)
	}
	return err
}
