package replica

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A snapshot of which any part is damaged, cut off or of another version is refused, and the state stays as it
// was.
func TestDamagedSnapshots(t *testing.T) {
	of := NewApplier(1, 7)
	of.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}))
	applyOne(t, of, 1, 7, 1, &pb.PutRequest{Key: []byte("k")})
	applyOne(t, of, 1, 7, 2, wrapperspb.Bytes(division(t).Encode()))
	var b bytes.Buffer
	snap := of.Snapshot()
	defer snap.Release()
	if _, err := snap.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	// The sections, and the state behind them.
	var parts [][]byte
	rest := b.Bytes()
	for range 5 {
		n := binary.BigEndian.Uint32(rest)
		parts, rest = append(parts, rest[4:4+n]), rest[4+n:]
	}
	parts = append(parts, rest)
	whole := func(parts [][]byte) (p []byte) {
		for i, part := range parts {
			if i < 5 {
				p = binary.BigEndian.AppendUint32(p, uint32(len(part)))
			}
			p = append(p, part...)
		}
		return p
	}
	with := func(i int, part []byte) []byte {
		changed := slices.Clone(parts)
		changed[i] = part
		return whole(changed)
	}
	longer := func(i int) []byte { return with(i, append(bytes.Clone(parts[i]), 0)) }
	shorter := func(i int) []byte { return with(i, parts[i][:len(parts[i])-1]) }
	for name, c := range map[string]struct {
		p  []byte
		ok bool
	}{
		"whole":                                 {whole(parts), true},
		"with members that are garbage":         {with(0, []byte{0xff}), false},
		"with members and more":                 {longer(0), false},
		"with a policy that nobody knows":       {with(1, []byte("sometimes")), false},
		"with a division that is garbage":       {with(2, []byte{0xff}), false},
		"with a division and more":              {longer(2), false},
		"with a part of a division":             {shorter(2), false},
		"without a released index":              {with(3, nil), false},
		"with a released index and more":        {longer(3), false},
		"with memberships and more":             {longer(4), false},
		"with a part of the memberships":        {shorter(4), false},
		"without memberships":                   {with(4, nil), false},
		"with a state that is cut off":          {shorter(5), false},
		"without a state":                       {with(5, nil), false},
		"with a state that is garbage":          {with(5, bytes.Repeat([]byte{1}, len(rest))), false},
		"that ends in the head of a section":    {whole(parts)[:2], false},
		"that ends in the first section":        {whole(parts)[:5], false},
		"that ends with the first section":      {whole(parts)[:4+len(parts[0])], false},
		"without a policy, as of a time before": {with(1, nil), true},
	} {
		a := NewApplier(1, 7)
		a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 3}, {ID: 5}}))
		applyOne(t, a, 1, 7, 1, wrapperspb.String("all"))
		paused := false
		a.Store().Pause = func() { paused = true }
		err := a.Restore(bytes.NewReader(c.p), 9, 4)
		if (err == nil) != c.ok {
			t.Errorf("a snapshot %s is loaded: %v, %v, want %v", name, err == nil, err, c.ok)
		}
		if err != nil && (a.Index() != 2 || len(a.Roster().Members) != 3 || a.ReadPolicy() != quorumlease.All || a.Store().Revision() != 1) {
			t.Errorf("a snapshot %s is refused, and leaves entry %d, %d members, policy %q, revision %d", name, a.Index(), len(a.Roster().Members), a.ReadPolicy(), a.Store().Revision())
		}
		if err == nil && (a.Index() != 9 || len(a.Roster().Members) != 2 || a.Store().Revision() != 2) {
			t.Errorf("a snapshot %s is loaded, and leaves entry %d, %d members, revision %d", name, a.Index(), len(a.Roster().Members), a.Store().Revision())
		}
		if a.Store().Pause(); !paused {
			t.Errorf("behind a snapshot %s the state does not pause where it did", name)
		}
	}
}
