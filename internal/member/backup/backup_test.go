package backup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func put(t testing.TB, s *kv.Store, key, value string, lease int64) {
	t.Helper()
	must[*pb.PutResponse](t)(s.Put(&pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease}))
}

func remove(t testing.TB, s *kv.Store, key string) {
	t.Helper()
	must[*pb.DeleteRangeResponse](t)(s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(key)}))
}

// rich is a state with something of all that there can be.
func rich(t testing.TB) *kv.Store {
	t.Helper()
	s := kv.New()
	for id, ttl := range map[int64]int64{7: 60, 1 << 60: 9, 12: kv.MaxLeaseTTL} {
		if err := s.Grant(id, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Checkpoint(7, 30_000); err != nil {
		t.Fatal(err)
	}
	put(t, s, "old", "1", 7)
	put(t, s, "old", "2", 0)
	put(t, s, "kept", strings.Repeat("long ", 1000), 12)
	put(t, s, "gone", "", 0)
	put(t, s, "untouched", "x", 7)
	remove(t, s, "gone") // revision 7
	must[*pb.TxnResponse](t)(s.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{
		putOp("z", "1"), putOp("a", "2"), {Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("old")}}},
	}}))
	put(t, s, "gone", "back", 1<<60)
	return s
}

func putOp(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value)}}}
}

func compacted(t testing.TB, s *kv.Store, rev int64) *kv.Store {
	t.Helper()
	if err := s.Compact(rev); err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, s *kv.Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.db")
	members := []*pb.Member{{ID: 0xab, Name: "a", PeerURLs: []string{"http://a:1"}, ClientURLs: []string{"http://a:2"}}, {ID: 0xcd, PeerURLs: []string{"http://b:1"}, IsLearner: true}}
	if err := backup.Write(path, backup.State{View: s.View(), Index: 77, Term: 5, Members: members, Removed: []uint64{0xee}}); err != nil {
		t.Fatal(err)
	}
	return path
}

func bytesOf(t testing.TB, s *kv.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	must[int64](t)(s.View().WriteTo(&b))
	return b.Bytes()
}

// TestWhatIsWrittenIsRead: a state comes back from its file as it was, history included.
func TestWhatIsWrittenIsRead(t *testing.T) {
	many := kv.New()
	for i := range 25_000 { // several transactions of the file
		put(t, many, fmt.Sprintf("key-%d", i%9000), fmt.Sprint(i), 0)
	}
	for name, s := range map[string]*kv.Store{
		"empty":                          kv.New(),
		"empty and compacted":            compacted(t, kv.New(), 1),
		"all of its history":             rich(t),
		"compacted where one key is put": compacted(t, rich(t), 4),
		"compacted at a deletion":        compacted(t, rich(t), 7),
		"compacted in a transaction":     compacted(t, rich(t), 8),
		"compacted at the end":           compacted(t, rich(t), 9),
		"many keys":                      compacted(t, many, 10_000),
	} {
		want := bytesOf(t, s)
		c, err := backup.Read(write(t, s))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		st := s.View().Stats()
		if c.Revision != s.Revision() || c.Compact != s.CompactRevision() || int64(c.Keys) != st.Keys || int64(c.Leases) != st.Leases || c.Orphans != 0 {
			t.Errorf("%s: the file tells %+v; want revision %d, compacted at %d, %d keys, %d leases", name, *c, s.Revision(), s.CompactRevision(), st.Keys, st.Leases)
		}
		back, err := c.Store()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := bytesOf(t, back); !bytes.Equal(got, want) {
			t.Errorf("%s: another state comes back", name)
		}
	}
}

// TestRaised: a restore may begin at a greater revision, at which everything before is compacted, and such a
// state can be saved and restored again.
func TestRaised(t *testing.T) {
	s := compacted(t, rich(t), 4)
	c := must[*backup.Content](t)(backup.Read(write(t, s)))
	for _, by := range []int64{0, -1, 1 << 61} {
		if err := c.Raise(by); err == nil {
			t.Errorf("raised by %d", by)
		}
	}
	if err := c.Raise(1000); err != nil {
		t.Fatal(err)
	}
	back := must[*kv.Store](t)(c.Store())
	if back.Revision() != 1009 || back.CompactRevision() != 1009 {
		t.Errorf("raised to revision %d, compacted at %d; want 1009", back.Revision(), back.CompactRevision())
	}
	want := must[*pb.RangeResponse](t)(s.View().Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}))
	got := must[*pb.RangeResponse](t)(back.View().Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}))
	if len(got.Kvs) != len(want.Kvs) {
		t.Fatalf("raised, there are %d keys, want %d", len(got.Kvs), len(want.Kvs))
	}
	for i := range want.Kvs {
		if !proto.Equal(got.Kvs[i], want.Kvs[i]) {
			t.Errorf("raised, it has %v, want %v", got.Kvs[i], want.Kvs[i])
		}
	}
	again := func(when string) {
		t.Helper()
		c, err := backup.Read(write(t, back))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := must[*kv.Store](t)(c.Store()); !bytes.Equal(bytesOf(t, got), bytesOf(t, back)) {
			t.Errorf("%s: another state comes back", when)
		}
	}
	again("saved at once")
	edit(t, write(t, back), func(tx *bbolt.Tx) error {
		if v := tx.Bucket([]byte("key")).Get(entry(1009, 0)); v == nil || len(v) > 0 {
			t.Errorf("under the raised revision the file has %q, want an entry that is empty, as etcd's restore leaves it", v)
		}
		return nil
	})
	put(t, back, "later", "x", 0)
	again("saved with a change")
}

// edit changes a file as a transaction of bbolt's.
func edit(t testing.TB, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	db := must[*bbolt.DB](t)(bbolt.Open(path, 0o600, nil))
	defer db.Close()
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
}

func entry(main, sub int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(main))
	return binary.BigEndian.AppendUint64(append(b, '_'), uint64(sub))
}

func version(t testing.TB, key string, create, mod, version, lease int64) []byte {
	return must[[]byte](t)(proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), CreateRevision: create, ModRevision: mod, Version: version, Lease: lease, Value: []byte("v")}))
}

// TestFilesOfEtcd: what an etcd's file may have and ours never has.
func TestFilesOfEtcd(t *testing.T) {
	newest := func(c *backup.Content) string {
		s, err := c.Store()
		if err != nil {
			return err.Error()
		}
		resp, err := s.View().Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, kv := range resp.Kvs {
			names = append(names, fmt.Sprintf("%s@%d", kv.Key, kv.ModRevision))
		}
		return fmt.Sprint(names, " ", s.Revision(), " from ", s.CompactRevision())
	}
	for _, tt := range []struct {
		name   string
		change func(keys, meta *bbolt.Bucket) error
		want   string
	}{
		{"as it is", func(_, _ *bbolt.Bucket) error { return nil }, "[a@8 gone@9 kept@4 untouched@6 z@8] 9 from -1"},
		{"a compaction that is not finished", func(_, meta *bbolt.Bucket) error {
			return errors.Join(meta.Put([]byte("scheduledCompactRev"), entry(8, 0)), meta.Put([]byte("finishedCompactRev"), entry(5, 0)))
		}, "[a@8 gone@9 kept@4 untouched@6 z@8] 9 from 8"},
		{"a restore has raised it", func(keys, meta *bbolt.Bucket) error {
			return errors.Join(keys.Put(entry(1009, 0), nil), meta.Put([]byte("scheduledCompactRev"), entry(1009, 0)))
		}, "[a@8 gone@9 kept@4 untouched@6 z@8] 1009 from 1009"},
		{"a restore has raised it without compacting", func(keys, _ *bbolt.Bucket) error {
			return errors.Join(keys.Put(entry(1009, 0), nil), keys.Put(entry(1010, 0), version(t, "new", 1010, 1010, 1, 0)))
		}, "[a@8 gone@9 kept@4 new@1010 untouched@6 z@8] 1010 from 1009"},
		{"revisions are missing", func(keys, _ *bbolt.Bucket) error {
			return keys.Put(entry(12, 0), version(t, "new", 12, 12, 1, 0))
		}, "[a@8 gone@9 kept@4 new@12 untouched@6 z@8] 12 from 12"},
		{"the deletion at the compact revision is gone, as before etcd 3.5.16", func(keys, meta *bbolt.Bucket) error {
			return errors.Join(keys.Delete(append(entry(7, 0), 't')), meta.Put([]byte("finishedCompactRev"), entry(7, 0)), keys.Delete(entry(5, 0)))
		}, "[a@8 gone@9 kept@4 untouched@6 z@8] 9 from 7"},
	} {
		path := write(t, rich(t))
		edit(t, path, func(tx *bbolt.Tx) error { return tt.change(tx.Bucket([]byte("key")), tx.Bucket([]byte("meta"))) })
		c, err := backup.Read(path)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := newest(c); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestOrphans: a key whose lease is not there stays, and has none.
func TestOrphans(t *testing.T) {
	path := write(t, rich(t))
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("lease")).Delete(binary.BigEndian.AppendUint64(nil, 12))
	})
	c := must[*backup.Content](t)(backup.Read(path))
	s, err := c.Store()
	if err != nil {
		t.Fatalf("a file with a key whose lease is not there is refused: %v", err)
	}
	resp := must[*pb.RangeResponse](t)(s.View().Range(&pb.RangeRequest{Key: []byte("kept")}))
	if c.Orphans != 1 || len(resp.Kvs) != 1 || resp.Kvs[0].Lease != 0 {
		t.Errorf("%d orphans, and the key is %v; want one, without a lease", c.Orphans, resp.Kvs)
	}
}

// TestWhatIsNoBackup: a file that is none, or is damaged, is refused in words, and nothing panics.
func TestWhatIsNoBackup(t *testing.T) {
	bucket := func(name string, change func(b *bbolt.Bucket) error) func(string) {
		return func(path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(name))) })
		}
	}
	for name, tt := range map[string]struct {
		damage func(path string)
		says   string
	}{
		"not there": {func(path string) { os.Remove(path) }, "no such file"},
		"a text":    {func(path string) { os.WriteFile(path, []byte("hello"), 0o600) }, "no database of etcd's"},
		"empty":     {func(path string) { os.WriteFile(path, nil, 0o600) }, "no database of etcd's"},
		"another database": {func(path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("key")) })
		}, "no bucket of keys"},
		"users":                      {bucket("auth", func(b *bbolt.Bucket) error { return b.Put([]byte("authEnabled"), []byte{1}) }), "users and roles"},
		"a key that is no revision":  {bucket("key", func(b *bbolt.Bucket) error { return b.Put([]byte("x"), []byte("y")) }), "is no revision"},
		"a revision of another mark": {bucket("key", func(b *bbolt.Bucket) error { return b.Put(append(entry(10, 0), 'x'), []byte("y")) }), "is no revision"},
		"a revision without its line": {bucket("key", func(b *bbolt.Bucket) error {
			return b.Put(bytes.Replace(entry(10, 0), []byte("_"), []byte("-"), 1), version(t, "k", 10, 10, 1, 0))
		}), "is no revision"},
		"a revision below zero": {bucket("key", func(b *bbolt.Bucket) error { return b.Put(entry(-10, 0), version(t, "k", -10, -10, 1, 0)) }), "is no revision"},
		"a change below zero":   {bucket("key", func(b *bbolt.Bucket) error { return b.Put(entry(10, -1), version(t, "k", 10, 10, 1, 0)) }), "is no revision"},
		"a lease at another's place": {bucket("lease", func(b *bbolt.Bucket) error {
			return b.Put(binary.BigEndian.AppendUint64(nil, 99), []byte{8, 12, 16, 60})
		}), "is no lease"},
		"a lease that is cut": {bucket("lease", func(b *bbolt.Bucket) error { return b.Put(binary.BigEndian.AppendUint64(nil, 99), []byte{8, 99, 16}) }), "is no lease"},
		"a lease with a field cut": {bucket("lease", func(b *bbolt.Bucket) error {
			return b.Put(binary.BigEndian.AppendUint64(nil, 99), []byte{8, 99, 16, 60, 0x4a, 9, 1})
		}), "is no lease"},
		"a value that is none":          {bucket("key", func(b *bbolt.Bucket) error { return b.Put(entry(10, 0), []byte{0xff}) }), "is no key-value"},
		"a value of another revision":   {bucket("key", func(b *bbolt.Bucket) error { return b.Put(entry(10, 0), version(t, "k", 2, 3, 1, 0)) }), "of another revision"},
		"a history that makes no sense": {bucket("key", func(b *bbolt.Bucket) error { return b.Put(entry(10, 0), version(t, "k", 2, 10, 9, 0)) }), "makes no sense"},
		"a lease that is none":          {bucket("lease", func(b *bbolt.Bucket) error { return b.Put([]byte("12345678"), []byte{0xff}) }), "is no lease"},
		"a lease of another id":         {bucket("lease", func(b *bbolt.Bucket) error { return b.Put([]byte("12345678"), []byte{8, 1, 16, 60}) }), "is no lease"},
		"a compaction that is none":     {bucket("meta", func(b *bbolt.Bucket) error { return b.Put([]byte("finishedCompactRev"), []byte("x")) }), "is no revision"},
	} {
		path := write(t, rich(t))
		tt.damage(path)
		c, err := backup.Read(path)
		if err == nil {
			_, err = c.Store()
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}

// TestDamageIsNoPanic: whichever page is overwritten, reading ends in an error or in a state.
func TestDamageIsNoPanic(t *testing.T) {
	whole := must[[]byte](t)(os.ReadFile(write(t, compacted(t, rich(t), 4))))
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "damaged.db")
	for at := 0; at < len(whole); at += page {
		for _, fill := range []byte{0, 0xff, 0x5a} {
			damaged := bytes.Clone(whole)
			for i := at; i < min(at+page/4, len(damaged)); i++ {
				damaged[i] = fill
			}
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("with %d bytes of %x at %d, reading panics: %v", page/4, fill, at, r)
					}
				}()
				if c, err := backup.Read(path); err == nil {
					_, _ = c.Store()
				}
			}()
		}
	}
}

// TestSums: a file is whole if its checksum says so.
func TestSums(t *testing.T) {
	path := write(t, rich(t))
	if err := backup.CheckSum(path); !errors.Is(err, backup.ErrNoSum) {
		t.Errorf("without a checksum: %v", err)
	}
	whole := must[[]byte](t)(os.ReadFile(path))
	sum := sha256.Sum256(whole)
	sealed := append(bytes.Clone(whole), sum[:]...)
	check := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return backup.CheckSum(path)
	}
	if err := check(sealed); err != nil {
		t.Errorf("with its checksum: %v", err)
	}
	if c, err := backup.Read(path); err != nil || c.Revision != 9 {
		t.Errorf("with its checksum, it is read as %v, %v", c, err)
	}
	for name, b := range map[string][]byte{
		"a bit of the database": flipped(sealed, len(whole)/2), "a bit of the checksum": flipped(sealed, len(sealed)-1),
		"a page is missing": append(bytes.Clone(whole[:len(whole)-4096]), sum[:]...),
	} {
		if err := check(b); !errors.Is(err, backup.ErrSum) {
			t.Errorf("%s: error %v, want %v", name, err, backup.ErrSum)
		}
	}
	for name, b := range map[string][]byte{"cut": sealed[:len(sealed)-7], "nothing": nil, "short": sum[:20]} {
		if err := check(b); !errors.Is(err, backup.ErrNoSum) {
			t.Errorf("%s: error %v, want %v", name, err, backup.ErrNoSum)
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// TestWrittenOnce: a file that is there is never written over, and one of a view whose history is gone is
// an error.
func TestWrittenOnce(t *testing.T) {
	s := compacted(t, rich(t), 4)
	path := write(t, s)
	if err := backup.Write(path, backup.State{View: s.View()}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: error %v", err)
	}
	old := s.View()
	compacted(t, s, 9)
	for s.Reclaim(100) {
	}
	if err := backup.Write(filepath.Join(t.TempDir(), "late.db"), backup.State{View: old}); !errors.Is(err, kv.ErrStaleView) {
		t.Errorf("of a view whose history is reclaimed: error %v", err)
	}
	if err := backup.Write(filepath.Join(t.TempDir(), "none.db"), backup.State{}); !errors.Is(err, kv.ErrNoState) {
		t.Errorf("of no state: error %v", err)
	}
}

// TestEtcdFindsItsOwn: the file has the buckets and the entries that etcd reads when it starts from it.
func TestEtcdFindsItsOwn(t *testing.T) {
	path := write(t, compacted(t, rich(t), 4))
	want := map[string]string{
		"meta/consistent_index": string(binary.BigEndian.AppendUint64(nil, 77)), "meta/term": string(binary.BigEndian.AppendUint64(nil, 5)),
		"meta/storageVersion": "3.7.0", "cluster/clusterVersion": "3.7.0",
		"meta/finishedCompactRev": string(entry(4, 0)), "meta/scheduledCompactRev": string(entry(4, 0)),
		"members_removed/ee": "removed",
		"lease/" + string(binary.BigEndian.AppendUint64(nil, 7)): string([]byte{8, 7, 16, 60, 24, 30}),
	}
	edit(t, path, func(tx *bbolt.Tx) error {
		for _, name := range []string{"key", "meta", "lease", "alarm", "cluster", "members", "members_removed", "auth", "authUsers", "authRoles"} {
			if tx.Bucket([]byte(name)) == nil {
				t.Errorf("there is no bucket %q", name)
			}
		}
		for name, value := range want {
			bucket, key, _ := strings.Cut(name, "/")
			if got := tx.Bucket([]byte(bucket)).Get([]byte(key)); string(got) != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		var a, b struct {
			ID         uint64   `json:"id"`
			PeerURLs   []string `json:"peerURLs"`
			IsLearner  bool     `json:"isLearner"`
			Name       string   `json:"name"`
			ClientURLs []string `json:"clientURLs"`
		}
		members := tx.Bucket([]byte("members"))
		if err := errors.Join(json.Unmarshal(members.Get([]byte("ab")), &a), json.Unmarshal(members.Get([]byte("cd")), &b)); err != nil {
			t.Errorf("members: %v", err)
		}
		if a.ID != 0xab || a.Name != "a" || a.PeerURLs[0] != "http://a:1" || a.ClientURLs[0] != "http://a:2" || a.IsLearner || !b.IsLearner {
			t.Errorf("members %+v and %+v", a, b)
		}
		var conf struct{ Voters, Learners []uint64 }
		if err := json.Unmarshal(tx.Bucket([]byte("meta")).Get([]byte("confState")), &conf); err != nil || len(conf.Voters) != 1 || len(conf.Learners) != 1 {
			t.Errorf("voters and learners %+v, %v", conf, err)
		}
		// A transaction's changes have places of their own, and a deletion has its mark.
		for _, key := range [][]byte{entry(8, 0), entry(8, 1), append(entry(8, 2), 't'), append(entry(7, 0), 't'), entry(9, 0), entry(3, 0), entry(4, 0)} {
			if tx.Bucket([]byte("key")).Get(key) == nil {
				t.Errorf("there is no version under %x", key)
			}
		}
		return nil
	})
}

// TestWhatAFileTells: its format, its size, and the sum of its buckets as etcd's tools compute it.
func TestWhatAFileTells(t *testing.T) {
	path := write(t, rich(t))
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	db := must[*bbolt.DB](t)(bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true}))
	size := int64(0)
	if err := db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			sum.Write(name)
			return b.ForEach(func(k, v []byte) error {
				sum.Write(append(slices.Clone(k), v...))
				return nil
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := must[*backup.Content](t)(backup.Read(path))
	if c.Version != "3.7.0" || c.Bytes != size || c.Hash != sum.Sum32() {
		t.Errorf("a database of %d bytes tells format %q, %d bytes and the sum %08x; want 3.7.0 and %08x", size, c.Version, c.Bytes, c.Hash, sum.Sum32())
	}
}

// TestDeletionsHaveKeysAlone: a deletion in a file has its key and nothing else, as etcd's have.
func TestDeletionsHaveKeysAlone(t *testing.T) {
	path := write(t, rich(t))
	found := 0
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			if !bytes.HasSuffix(k, []byte("t")) || len(k) != 18 {
				return nil
			}
			found++
			kv := new(mvccpb.KeyValue)
			if err := proto.Unmarshal(v, kv); err != nil || len(kv.Key) == 0 || !proto.Equal(kv, &mvccpb.KeyValue{Key: kv.Key}) {
				t.Errorf("a deletion is written as %v, %v", kv, err)
			}
			return nil
		})
	})
	if found != 2 {
		t.Errorf("%d deletions are in the file, want 2", found)
	}
}

// TestTransactionsOfAFile: a file is written in transactions of a bounded number of keys and bytes, and of no fewer
// than that.
func TestTransactionsOfAFile(t *testing.T) {
	transactions := func(s *kv.Store) (n int) {
		edit(t, write(t, s), func(tx *bbolt.Tx) error {
			n = tx.ID() - 1
			return nil
		})
		return n
	}
	least := transactions(kv.New())
	keys, large := kv.New(), kv.New()
	for i := range 25_000 {
		put(t, keys, fmt.Sprint(i), "", 0)
	}
	for i := range 20 {
		put(t, large, fmt.Sprint(i), strings.Repeat("x", 1<<20), 0)
	}
	if got := transactions(keys) - least; got != 2 {
		t.Errorf("25,000 keys take %d transactions more than none, want 2", got)
	}
	if got := transactions(large) - least; got != 2 {
		t.Errorf("20 MiB take %d transactions more than nothing, want 2", got)
	}
}

// TestFilesWithoutLeases: an etcd's file may lack the bucket, and a lease may have fields of a later version.
func TestFilesWithoutLeases(t *testing.T) {
	path := write(t, rich(t))
	edit(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("lease")) })
	if c, err := backup.Read(path); err != nil || c.Leases != 0 || c.Orphans != 3 {
		t.Errorf("without a bucket of leases: %+v, %v; want three keys that have lost theirs", c, err)
	}
	path = write(t, rich(t))
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, 99), []byte{0x4a, 2, 1, 2, 8, 99, 16, 60})
	})
	if c, err := backup.Read(path); err != nil || c.Leases != 4 {
		t.Errorf("with a lease that has a field of a later version: %+v, %v; want four leases", c, err)
	}
}

// TestNothingAtTheCompactRevision: etcd's compaction leaves nothing of a key that was deleted there.
func TestNothingAtTheCompactRevision(t *testing.T) {
	path := write(t, rich(t))
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("finishedCompactRev"), entry(12, 0))
	})
	c, err := backup.Read(path)
	if err != nil || c.Revision != 12 || c.Compact != 12 {
		t.Fatalf("a file that was compacted behind its last change tells %+v, %v", c, err)
	}
	s, err := c.Store()
	if err != nil || s.Revision() != 12 || s.CompactRevision() != 12 {
		t.Errorf("it makes no state of revision 12: %v", err)
	}
}

// TestHowFarRevisionsAreRaised: by one at least, and by as much as leaves room for later ones.
func TestHowFarRevisionsAreRaised(t *testing.T) {
	for by, ok := range map[int64]bool{-1: false, 0: false, 1: true, 1 << 60: true, 1<<60 + 1: false} {
		c := must[*backup.Content](t)(backup.Read(write(t, rich(t))))
		err := c.Raise(by)
		if (err == nil) != ok || ok && c.Revision != 9+by || !ok && c.Revision != 9 {
			t.Errorf("raised by %d: revision %d, %v", by, c.Revision, err)
		}
	}
}
