package kv

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// FuzzRead reads arbitrary bytes, as they are and with their checksum put right. An
// accepted snapshot must give a sound store: it writes the same snapshot, goes on working,
// and gives back its memory.
func FuzzRead(f *testing.F) {
	whole := snapshot(f, richStore(f).View())
	f.Add(whole)
	f.Add(whole[:len(whole)-4])
	f.Add(forge(1, -1))
	f.Fuzz(func(t *testing.T, data []byte) {
		use(t, data)
		use(t, sealed(bytes.Clone(data)))
		if len(data) >= 4 {
			use(t, sealed(bytes.Clone(data[:len(data)-4])))
		}
	})
}

func use(t *testing.T, data []byte) {
	s, err := Read(bytes.NewReader(data))
	if err != nil {
		return
	}
	first := snapshot(t, s.View())
	again, err := Read(bytes.NewReader(first))
	if err != nil {
		t.Fatalf("cannot read what was written: %v", err)
	}
	if second := snapshot(t, again.View()); !bytes.Equal(first, second) {
		t.Fatalf("written twice:\n%x\n%x", first, second)
	}
	for l := range s.View().Leases() {
		if err := s.Revoke(l.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "k", "v", 0)
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(1000) {
	}
	st := s.View().Stats()
	if st.Keys != 1 || st.Leases != 0 || st.Versions != 1 {
		t.Fatalf("stats %+v, want one version of one key", st)
	}
}
