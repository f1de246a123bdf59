package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// richStore has something of all that a snapshot can hold.
func richStore(t testing.TB) *Store {
	s := New()
	for id, ttl := range map[int64]int64{7: 60, -3: 5, 1 << 60: MaxLeaseTTL} {
		if err := s.Grant(id, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Checkpoint(7, 30); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "old", "1", 7)
	mustPut(t, s, "old", "2", 0)
	mustPut(t, s, "gone", "", 0)
	if _, err := s.Txn(then(deleteOp("gone", ""), putOp("at\x00compact"))); err != nil { // revision 5
		t.Fatal(err)
	}
	mustPut(t, s, "at\x00compact", strings.Repeat("long ", 50), -3)
	mustPut(t, s, "gone", "back", 7)
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(5); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotDoesNotShowReclaiming(t *testing.T) {
	s := richStore(t)
	want := snapshot(t, s.View())
	for s.Reclaim(1) {
		if got := snapshot(t, s.View()); !bytes.Equal(got, want) {
			t.Fatalf("half reclaimed:\n%x\n%x", got, want)
		}
	}
	if got := snapshot(t, s.View()); !bytes.Equal(got, want) {
		t.Errorf("reclaimed:\n%x\n%x", got, want)
	}
}

// TestReadRefusesDamage flips every bit and cuts at every byte.
func TestReadRefusesDamage(t *testing.T) {
	whole := snapshot(t, richStore(t).View())
	refused := func(what string, at int, data []byte) {
		t.Helper()
		s, err := Read(bytes.NewReader(data))
		if s != nil || !errors.Is(err, errSnapshotCorrupt) && !errors.Is(err, errSnapshotVersion) {
			t.Fatalf("%s at byte %d: error %v", what, at, err)
		}
	}
	for i := range whole {
		refused("cut", i, whole[:i])
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			refused("flipped bit", i, damaged)
		}
	}
	refused("added byte", len(whole), append(bytes.Clone(whole), 0))
}

// sealed gives data its checksum, so that only its content can be refused.
func sealed(data []byte) []byte {
	return binary.BigEndian.AppendUint32(data, wire.Checksum(data))
}

// forge encodes records that no View would write.
func forge(revision, compact int64, records ...func(*encoder)) []byte {
	var b bytes.Buffer
	e := newEncoder(&b)
	e.header(View{revision: revision, compact: compact})
	for _, r := range records {
		r(e)
	}
	e.record(recordEnd)
	if _, err := e.finish(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestReadRefusesNonsense(t *testing.T) {
	put := func(kind byte, key string, create, mod, ver, lease int64) func(*encoder) {
		return func(e *encoder) {
			e.record(kind, create, mod, ver, lease)
			e.bytes([]byte(key))
			e.bytes(nil)
		}
	}
	base := func(key string, create, mod, ver int64) func(*encoder) {
		return put(recordBase, key, create, mod, ver, 0)
	}
	event := func(key string, create, mod, ver int64) func(*encoder) {
		return put(recordPut, key, create, mod, ver, 0)
	}
	del := func(key string, mod int64) func(*encoder) {
		return func(e *encoder) { e.version(0, &mvccpb.KeyValue{Key: []byte(key), ModRevision: mod}) }
	}
	lease := func(id, ttl, remaining int64) func(*encoder) {
		return func(e *encoder) { e.record(recordLease, id, ttl, remaining) }
	}
	at5 := event("e", 5, 5, 1)
	tests := []struct {
		name string
		data []byte
		ok   bool
	}{
		{"empty", forge(1, -1), true},
		{"empty and compacted", forge(1, 1), true},
		{"base and events", forge(6, 5, base("a", 2, 3, 2), at5, event("e", 5, 6, 2)), true},
		{"events in one revision", forge(2, -1, event("b", 2, 2, 1), event("a", 2, 2, 1)), true},
		{"older version before the compact revision", forge(5, 5, event("a", 2, 5, 3)), true},
		{"deletion at the compact revision", forge(5, 5, del("a", 5)), true},
		{"deleted and put again in one revision", forge(3, -1, event("a", 2, 2, 1), del("a", 3), event("a", 3, 3, 1)), true},
		{"leases", forge(1, -1, lease(-1, 5, 0), lease(4, 60, 3)), true},
		{"attached", forge(2, -1, put(recordPut, "a", 2, 2, 1, 4), lease(4, 60, 3)), true},
		{"was attached to a lease that ended", forge(3, -1, put(recordPut, "a", 2, 2, 1, 4), del("a", 3)), true},

		{"revision zero", forge(0, -1), false},
		{"huge revision", forge(1<<63-1, 1<<63-1, event("a", 1<<63-1, 1<<63-1, 1)), false},
		{"compacted in the future", forge(1, 2), false},
		{"compacted at -2", forge(1, -2), false},
		{"no events of the last revision", forge(3, -1, event("a", 2, 2, 1)), false},
		{"no events at all", forge(2, -1), false},
		{"no events at the compact revision", forge(5, 5, base("a", 2, 2, 1)), false},
		{"events missing at the start", forge(6, 5, event("a", 6, 6, 1)), false},
		{"events missing in between", forge(4, -1, event("a", 2, 2, 1), event("a", 2, 4, 2)), false},
		{"events going back", forge(3, -1, event("a", 2, 2, 1), event("b", 3, 3, 1), event("c", 2, 2, 1)), false},
		{"event after the last revision", forge(2, -1, event("a", 2, 2, 1), event("b", 3, 3, 1)), false},
		{"event before the compact revision", forge(5, 5, event("a", 4, 4, 1), at5), false},
		{"base out of order", forge(5, 5, base("b", 2, 2, 1), base("a", 3, 3, 1), at5), false},
		{"base twice", forge(5, 5, base("a", 2, 2, 1), base("a", 3, 3, 1), at5), false},
		{"base after an event", forge(5, 5, at5, base("a", 2, 2, 1)), false},
		{"base at the compact revision", forge(5, 5, base("a", 5, 5, 1), at5), false},
		{"base without compaction", forge(2, -1, base("a", 2, 2, 1), event("b", 2, 2, 1)), false},
		{"empty key", forge(2, -1, event("", 2, 2, 1)), false},
		{"created after its change", forge(5, 5, base("a", 4, 3, 1), at5), false},
		{"created at revision 1", forge(5, 5, base("a", 1, 3, 1), at5), false},
		{"version zero", forge(5, 5, base("a", 2, 3, 0), at5), false},
		{"version skipped", forge(3, -1, event("a", 2, 2, 1), event("a", 2, 3, 3)), false},
		{"version not of its base", forge(6, 5, base("a", 2, 3, 2), at5, event("a", 2, 6, 2)), false},
		{"creation forgotten", forge(3, -1, event("a", 2, 2, 1), event("a", 3, 3, 2)), false},
		{"created with version 2", forge(2, -1, event("a", 2, 2, 2)), false},
		{"created before it was there", forge(3, -1, event("b", 2, 2, 1), event("a", 2, 3, 1)), false},
		{"deletion of nothing", forge(2, -1, del("a", 2)), false},
		{"deletion of the deleted", forge(4, -1, event("a", 2, 2, 1), del("a", 3), del("a", 4)), false},
		{"lease zero", forge(1, -1, lease(0, 5, 0)), false},
		{"lease twice", forge(1, -1, lease(4, 5, 0), lease(4, 5, 0)), false},
		{"leases out of order", forge(1, -1, lease(4, 5, 0), lease(3, 5, 0)), false},
		{"lease without time", forge(1, -1, lease(4, 0, 0)), false},
		{"lease with too much time", forge(1, -1, lease(4, MaxLeaseTTL+1, 0)), false},
		{"lease with negative rest", forge(1, -1, lease(4, 5, -1)), false},
		{"attached to nothing", forge(2, -1, put(recordPut, "a", 2, 2, 1, 4)), false},
		{"event after a lease", forge(2, -1, lease(4, 5, 0), event("a", 2, 2, 1)), false},
		{"key of a negative length", forge(2, -1, func(e *encoder) {
			e.record(recordDelete, 2)
			e.write(binary.AppendUvarint(nil, 1<<63))
		}), false},
		{"value of a negative length", forge(2, -1, func(e *encoder) {
			e.record(recordPut, 2, 2, 1, 0)
			e.bytes([]byte("a"))
			e.write(binary.AppendUvarint(nil, 1<<63))
		}), false},
		{"unknown record", forge(1, -1, func(e *encoder) { e.record(9) }), false},
		{"unknown record that reads like an event", forge(2, -1, put(9, "a", 2, 2, 1, 0)), false},
		{"another program wrote it", sealed(append([]byte("TENUREKW"), forge(1, -1)[len(snapshotMagic):len(forge(1, -1))-4]...)), false},
		{"absurd length", sealed([]byte("TENUREKV\x00\x00\x00\x01\x04\x01\x03\x04\xff\xff\xff\xff\xff\xff\xff\xff\x01")), false},
		{"overlong number", sealed([]byte("TENUREKV\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), false},
		{"length beyond the end", sealed([]byte("TENUREKV\x00\x00\x00\x01\x04\x01\x03\x04\xff\xff\xff\xff\x0f")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Read(bytes.NewReader(tt.data))
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				if again := snapshot(t, s.View()); !bytes.Equal(again, tt.data) {
					t.Errorf("writes\n%x, was\n%x", again, tt.data)
				}
				return
			}
			if !errors.Is(err, errSnapshotCorrupt) {
				t.Errorf("error %v, want %v", err, errSnapshotCorrupt)
			}
		})
	}
}

// TestReadSaysWhere: the error of a snapshot that is cut short says how many bytes there were.
// A length in a snapshot is believed only as far as there are bytes.
func TestReadBelievesNoLength(t *testing.T) {
	const claimed = 64 << 20
	data := forge(2, -1, func(e *encoder) {
		e.record(recordPut, 2, 2, 1, 0)
		e.bytes([]byte("a"))
		e.write(binary.AppendUvarint(nil, claimed))
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Read(bytes.NewReader(data)); !errors.Is(err, errSnapshotCorrupt) {
		t.Errorf("a value of %d bytes in a snapshot of %d: %v, want %v", claimed, len(data), err, errSnapshotCorrupt)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > claimed/8 {
		t.Errorf("a snapshot of %d bytes that claims a value of %d took %d bytes of memory to refuse", len(data), claimed, took)
	}
}

func TestReadSaysWhere(t *testing.T) {
	s := New()
	mustPut(t, s, "k", "v", 0)
	mustPut(t, s, "long", strings.Repeat("long", grain/2), 0)
	mustPut(t, s, "last", "v", 0)
	whole := snapshot(t, s.View())
	for _, n := range []int{0, 7, len(snapshotMagic) + 5, 30, grain, len(whole) - 10, len(whole) - 1} {
		_, err := Read(bytes.NewReader(whole[:n]))
		if want := fmt.Sprintf("at byte %d:", n); !errors.Is(err, errSnapshotCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("a snapshot of %d bytes: %v, want it to say %q", n, err, want)
		}
	}
}

func TestReadRefusesOtherVersions(t *testing.T) {
	data := forge(1, -1)
	data[11] = snapshotVersion + 1
	if _, err := Read(bytes.NewReader(data)); !errors.Is(err, errSnapshotVersion) {
		t.Errorf("error %v, want %v", err, errSnapshotVersion)
	}
}

func TestReadLongValue(t *testing.T) {
	s := New()
	value := strings.Repeat("0123456789", grain/5)
	mustPut(t, s, "k", value, 0)
	s, err := Read(bytes.NewReader(snapshot(t, s.View())))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.View().Range(&pb.RangeRequest{Key: []byte("k")})
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != value {
		t.Errorf("a value of %d bytes did not survive: %v", len(value), err)
	}
}

// failing writes or reads n bytes and then fails.
type failing struct {
	io.Reader
	n int
}

var errDisk = errors.New("the disk is on fire")

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = errDisk
	}
	return n, err
}

// A snapshot has on disk what every version reads and writes: another order of its numbers would
// make sense, too, and give a key another lease.
func TestASnapshotLooksAsOnDisk(t *testing.T) {
	const onDisk = "TENUREKV\x00\x00\x00\x01\f\b" +
		"\x02\x04\b\x06\xd8\x04\x01a\x01z" + // a, at the compact revision
		"\x02\n\n\x02\x00\x01b\x00" + "\x03\f\x01b" + "\x02\f\f\x02\x00\x01c\x00" + // events
		"\x04\xd8\x04\x8c\x01<" + "\x00\xb7+\xc5\xa4" // a lease, and the end
	s := New()
	if err := errors.Join(s.Grant(300, 70), s.Checkpoint(300, 30)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "a", "x", 0)
	mustPut(t, s, "a", "y", 0)
	mustPut(t, s, "a", "z", 300)
	mustPut(t, s, "b", "", 0)
	if err := s.Compact(4); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(then(deleteOp("b", ""), putOp("c"))); err != nil {
		t.Fatal(err)
	}
	if got := snapshot(t, s.View()); string(got) != onDisk {
		t.Errorf("written as %q, want %q", got, onDisk)
	}
	read, err := Read(strings.NewReader(onDisk))
	if err != nil {
		t.Fatalf("what another version wrote is refused: %v", err)
	}
	resp, err := read.View().Range(&pb.RangeRequest{Key: []byte("a")})
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	if kv := resp.Kvs[0]; kv.CreateRevision != 2 || kv.ModRevision != 4 || kv.Version != 3 || kv.Lease != 300 || string(kv.Value) != "z" {
		t.Errorf("read as %v", kv)
	}
	if info, ok := read.View().Lease(300); !ok || info.TTL != 70 || info.Remaining != 30 {
		t.Errorf("its lease is read as %+v", info)
	}
}

func TestSnapshotPassesErrorsOn(t *testing.T) {
	v := richStore(t).View()
	if _, err := v.WriteTo(&failing{}); !errors.Is(err, errDisk) {
		t.Errorf("write: error %v, want %v", err, errDisk)
	}
	whole := snapshot(t, v)
	for n := range len(whole) + 1 { // within numbers, too
		r := &failing{Reader: bytes.NewReader(whole[:n])}
		if _, err := Read(r); !errors.Is(err, errDisk) || errors.Is(err, errSnapshotCorrupt) {
			t.Errorf("read of %d bytes: error %v, want %v", n, err, errDisk)
		}
	}
}

func TestSnapshotOfAStaleView(t *testing.T) {
	s := richStore(t)
	v := s.View()
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteTo(io.Discard); err != nil {
		t.Errorf("compacted but not reclaimed: error %v", err)
	}
	s.Reclaim(1)
	if _, err := v.WriteTo(io.Discard); err != ErrStaleView {
		t.Errorf("reclaimed: error %v, want %v", err, ErrStaleView)
	}
}
