package server

import (
	"context"
	"time"

	"github.com/tenure-lease/tenure/api/readleasepb"
)

// Reads are linearizable reads of a member: those that it answered under its lease, and
// the others.
type Reads struct{ Local, Others uint64 }

// Reads counts a member's, since its start. Etcd has no leases for reading.
func (m *Member) Reads(ctx context.Context) (Reads, error) {
	if m.kind != Tenure {
		return Reads{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cli, err := Client(m.Endpoint)
	if err != nil {
		return Reads{}, err
	}
	defer cli.Close()
	got, err := readleasepb.NewReadLeaseClient(cli.ActiveConnection()).Get(ctx, &readleasepb.GetRequest{})
	return Reads{got.GetReads().GetLocal(), got.GetReads().GetRounds() + got.GetReads().GetForwarded()}, err
}

// Since is the share of those under a lease since they were counted before.
func (r Reads) Since(before Reads) float64 {
	local := r.Local - before.Local
	if n := local + r.Others - before.Others; n > 0 {
		return float64(local) / float64(n)
	}
	return 0
}
