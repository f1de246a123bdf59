package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

func body(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// bigBody needs several chunks and several syncs.
var bigBody = strings.Repeat("0123456789abcdef", 600_000)

func testSnapshots(t testing.TB, disk *waltest.Disk) *Snapshots {
	t.Helper()
	return create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 4096}).Snapshots()
}

func save(t testing.TB, s *Snapshots, index uint64, content string) {
	t.Helper()
	if err := s.Save(SnapshotInfo{Index: index, Term: 3, Meta: []byte("conf")}, body(content)); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, s *Snapshots, index uint64) (SnapshotInfo, string) {
	t.Helper()
	r, err := s.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return r.Info(), string(b)
}

func TestSnapshotSaveAndLoad(t *testing.T) {
	s := testSnapshots(t, waltest.NewDisk())
	if _, _, err := s.Newest(nil); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("Newest of none: %v, want ErrNoSnapshot", err)
	}
	for i, want := range []string{"", "x", strings.Repeat("y", ChunkBytes), bigBody} {
		save(t, s, uint64(i+1), want)
		info, got := load(t, s, uint64(i+1))
		if got != want || info.Index != uint64(i+1) || info.Term != 3 || string(info.Meta) != "conf" {
			t.Errorf("snapshot %d: %d bytes, %+v; want %d bytes", i+1, len(got), info, len(want))
		}
	}
	if info, skipped, err := s.Newest(nil); err != nil || info.Index != 4 || skipped != nil {
		t.Errorf("Newest: %d, %v, %v; want 4", info.Index, skipped, err)
	}
	if err := s.Prune(2); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.List(); len(got) != 2 || got[0] != 3 {
		t.Errorf("after Prune(2): %v, want [3 4]", got)
	}
	if _, err := s.Open(1); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("Open of a pruned one: %v, want ErrNoSnapshot", err)
	}
}

func TestSnapshotBodyErrorLeavesNothing(t *testing.T) {
	disk, stop := waltest.NewDisk(), errors.New("stop")
	s := testSnapshots(t, disk)
	err := s.Save(SnapshotInfo{Index: 1}, func(w io.Writer) error {
		io.WriteString(w, "half")
		return stop
	})
	if names, _ := disk.FS().ReadDir(s.Dir()); !errors.Is(err, stop) || len(names) != 0 {
		t.Errorf("got %v and files %v, want the body's error and no file", err, names)
	}
}

func TestSnapshotOnHost(t *testing.T) {
	s := create(t, t.TempDir(), Options{}).Snapshots()
	save(t, s, 42, bigBody)
	if _, got := load(t, s, 42); got != bigBody {
		t.Errorf("%d bytes came back, want %d", len(got), len(bigBody))
	}
	if _, err := os.Stat(s.Path(42)); err != nil || !strings.HasSuffix(s.Path(42), "000000000000002a.snap") {
		t.Errorf("%s: %v", s.Path(42), err)
	}
}

func TestSnapshotExportImport(t *testing.T) {
	a, b := testSnapshots(t, waltest.NewDisk()), testSnapshots(t, waltest.NewDisk())
	save(t, a, 9, bigBody)
	raw, size, err := a.Export(9)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	// The stream may go on: Import takes what is the snapshot's and no more.
	stream := io.MultiReader(raw, strings.NewReader("more"))
	info, err := b.Import(9, stream)
	if err != nil || info.Index != 9 {
		t.Fatalf("Import: %+v, %v", info, err)
	}
	if rest, _ := io.ReadAll(stream); string(rest) != "more" {
		t.Errorf("Import left %q of the stream, want %q", rest, "more")
	}
	if _, got := load(t, b, 9); got != bigBody {
		t.Errorf("%d bytes came through, want %d", len(got), len(bigBody))
	}
	if _, got, _ := b.Export(9); got != size {
		t.Errorf("imported file has %d bytes, want %d", got, size)
	}
	if info, err := b.Import(10, bytes.NewReader(snapshotBytes(t, a, 9))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("snapshot 9 in the place of 10: %+v, %v; want ErrCorrupt", info, err)
	}
	if list, err := b.List(); err != nil || !slices.Equal(list, []uint64{9}) {
		t.Errorf("the snapshots are %v, %v; want 9 alone", list, err)
	}
}

// snapshotBytes returns the file of snapshot index.
func snapshotBytes(t *testing.T, s *Snapshots, index uint64) []byte {
	t.Helper()
	raw, _, err := s.Export(index)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	b, err := io.ReadAll(raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flip changes one bit of a file.
func flip(disk *waltest.Disk, path string, at int) {
	b := disk.ReadFile(path)
	b[at] ^= 1
	disk.WriteFile(path, b)
}

// TestSnapshotDamageAnywhere flips a bit of each byte, and cuts the file there.
func TestSnapshotDamageAnywhere(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	save(t, s, 1, strings.Repeat("body", 20))
	good := snapshotBytes(t, s, 1)
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x10
		for name, bad := range map[string][]byte{"flip": flipped, "cut": good[:i]} {
			disk.WriteFile(s.Path(1), bad)
			var corrupt *CorruptError
			if _, err := s.Verify(1); !errors.As(err, &corrupt) || corrupt.File != s.Path(1) || corrupt.Offset > int64(i) {
				t.Fatalf("%s at %d: %v, want a CorruptError at or before it", name, i, err)
			}
			if _, err := testSnapshots(t, waltest.NewDisk()).Import(1, bytes.NewReader(bad)); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("import, %s at %d: %v, want ErrCorrupt", name, i, err)
			}
		}
	}
	disk.WriteFile(s.Path(1), append(good, 0))
	if _, err := s.Verify(1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too much: %v, want ErrCorrupt", err)
	}
}

func TestSnapshotDamageNamesTheChunk(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	save(t, s, 1, strings.Repeat("z", 5*ChunkBytes))
	at := SnapshotFixed + 4 + 4 + 3*(8+ChunkBytes) // header, "conf", checksum, three chunks
	flip(disk, s.Path(1), at+1000)
	var corrupt *CorruptError
	if _, err := s.Verify(1); !errors.As(err, &corrupt) || corrupt.Offset != int64(at) {
		t.Errorf("got %v, want offset %d", err, at)
	}
}

func TestDamagedNewestSnapshot(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	save(t, s, 1, "one")
	save(t, s, 2, "two")
	flip(disk, s.Path(2), 50)
	no := func(SnapshotInfo) bool { return false }
	var corrupt *CorruptError
	if _, _, err := s.Newest(no); !errors.As(err, &corrupt) || corrupt.File != s.Path(2) {
		t.Errorf("log does not reach back: %v, want a CorruptError naming %s", err, s.Path(2))
	}
	if info, _, err := s.Newest(nil); !errors.As(err, &corrupt) || corrupt.File != s.Path(2) {
		t.Errorf("nobody knows whether the log reaches back: snapshot %d, %v; want a CorruptError", info.Index, err)
	}
	yes := func(info SnapshotInfo) bool { return info.Index == 1 }
	if info, skipped, err := s.Newest(yes); err != nil || info.Index != 1 || len(skipped) != 1 || !errors.Is(skipped[0], ErrCorrupt) {
		t.Errorf("log reaches back: %d, %v, %v; want 1 and a report", info.Index, skipped, err)
	}
	if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{1}) {
		t.Errorf("then there are %v, %v; want 1 alone", got, err)
	}
	flip(disk, s.Path(1), 50)
	if _, _, err := s.Newest(yes); !errors.Is(err, ErrCorrupt) {
		t.Errorf("both damaged: %v, want ErrCorrupt", err)
	}
}

// A found snapshot comes with all its metadata.
func TestSnapshotsSayWhatTheyAre(t *testing.T) {
	s := testSnapshots(t, waltest.NewDisk())
	want := SnapshotInfo{Index: 7, Term: 3, Meta: []byte("members")}
	if err := s.Save(want, body("body")); err != nil {
		t.Fatal(err)
	}
	file := snapshotBytes(t, s, 7)
	to := testSnapshots(t, waltest.NewDisk())
	for what, find := range map[string]func() (SnapshotInfo, error){
		"Verify": func() (SnapshotInfo, error) { return s.Verify(7) },
		"Newest": func() (SnapshotInfo, error) { info, _, err := s.Newest(nil); return info, err },
		"Import": func() (SnapshotInfo, error) { return to.Import(7, bytes.NewReader(file)) },
		"Receive": func() (SnapshotInfo, error) {
			a, err := to.Receive(7, bytes.NewReader(file))
			if err != nil {
				return SnapshotInfo{}, err
			}
			return a.Info, a.Discard()
		},
	} {
		got, err := find()
		if err != nil || got.Index != want.Index || got.Term != want.Term || !bytes.Equal(got.Meta, want.Meta) {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
}

// Of several damaged snapshots the error names the newest, and a report has them all.
func TestSeveralDamagedSnapshots(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	for index := range uint64(4) {
		save(t, s, index+1, "body")
	}
	names := func(err error, index uint64) bool {
		var corrupt *CorruptError
		return errors.As(err, &corrupt) && corrupt.File == s.Path(index)
	}
	flip(disk, s.Path(4), 50)
	flip(disk, s.Path(3), 50)
	if _, skipped, err := s.Newest(func(SnapshotInfo) bool { return false }); !names(err, 4) || skipped != nil {
		t.Errorf("the log does not reach back: %v, %v; want a CorruptError naming %s", skipped, err, s.Path(4))
	}
	info, skipped, err := s.Newest(func(info SnapshotInfo) bool { return info.Index == 2 })
	if err != nil || info.Index != 2 || len(skipped) != 2 || !names(skipped[0], 4) || !names(skipped[1], 3) {
		t.Errorf("the log reaches back to snapshot 2: %d, %v, %v; want that one, and both damaged ones reported", info.Index, skipped, err)
	}
	if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("then there are %v, %v; want 1 and 2", got, err)
	}
	flip(disk, s.Path(1), 50)
	flip(disk, s.Path(2), 50)
	if _, skipped, err := s.Newest(func(SnapshotInfo) bool { return true }); !names(err, 2) || skipped != nil {
		t.Errorf("all are damaged: %v, %v; want a CorruptError naming %s", skipped, err, s.Path(2))
	}
}

func TestNewerSnapshotVersionIsRefused(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	save(t, s, 1, "one")
	newer := disk.ReadFile(s.Path(1))
	PutVersion(newer[8:], SnapshotVersion+1)
	disk.WriteFile(s.Path(1), newer)
	_, _, err := s.Newest(func(SnapshotInfo) bool { return true })
	if !errors.Is(err, ErrNewerVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want ErrNewerVersion", err)
	}
}

// TestSnapshotCrash saves snapshot 2 over and over, crashes at a random
// operation, and wants snapshot 1 or 2 whole, 2 if Save had returned.
func TestSnapshotCrash(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		disk := waltest.NewDisk()
		fs := disk.FS()
		s := create(t, "/d", Options{FS: fs, SegmentBytes: 4096}).Snapshots()
		save(t, s, 1, "one")
		left := r.IntN(12)
		fs.Fault = func(op, path string) error {
			if left--; left < 0 {
				return syscall.EIO
			}
			return nil
		}
		saved := s.Save(SnapshotInfo{Index: 2}, body(strings.Repeat("two", 1000))) == nil
		disk.Crash(r)
		l, _ := open(t, "/d", Options{FS: disk.FS(), SegmentBytes: 4096})
		info, skipped, err := l.Snapshots().Newest(nil)
		if err != nil || skipped != nil || saved && info.Index != 2 {
			t.Fatalf("seed %d: a crash left a snapshot that cannot be used: saved %v, newest %d, skipped %v, %v", seed, saved, info.Index, skipped, err)
		}
		if names, _ := disk.FS().ReadDir(s.Dir()); len(names) != int(info.Index) {
			t.Fatalf("seed %d: unfinished files are left: %v", seed, names)
		}
	}
}

// The metadata of a snapshot has a bound, both for its writer and for its readers.
func TestSnapshotMetadataIsBounded(t *testing.T) {
	const most = 1 << 20
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	if err := s.Save(SnapshotInfo{Index: 1, Meta: make([]byte, most)}, body("b")); err != nil {
		t.Fatal(err)
	}
	if info, err := s.Verify(1); err != nil || len(info.Meta) != most {
		t.Errorf("metadata of 1 MiB: %d bytes, %v", len(info.Meta), err)
	}
	if err := s.Save(SnapshotInfo{Index: 2, Meta: make([]byte, most+1)}, body("b")); err == nil || !strings.Contains(err.Error(), "are the limit") {
		t.Errorf("save metadata of more than 1 MiB: %v, want it refused", err)
	}
	if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{1}) {
		t.Errorf("the snapshots are %v, %v; want 1 alone", got, err)
	}
	head := snapshotBytes(t, s, 1)[:SnapshotFixed]
	binary.LittleEndian.PutUint32(head[SnapshotFixed-4:], most+1)
	long := append(head, make([]byte, most+1)...)
	long = binary.LittleEndian.AppendUint32(long, crc32.Checksum(long, crc32.MakeTable(crc32.Castagnoli)))
	disk.WriteFile(s.Path(1), long)
	if _, err := s.Verify(1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "impossible length") {
		t.Errorf("read metadata of more than 1 MiB: %v, want ErrCorrupt for its length", err)
	}
}

// A snapshot under the name of another is damaged, and Prune leaves the newest one whatever it is told.
func TestSnapshotsHaveTheirNames(t *testing.T) {
	disk := waltest.NewDisk()
	s := testSnapshots(t, disk)
	save(t, s, 1, "one")
	save(t, s, 2, "two")
	disk.WriteFile(s.Path(3), disk.ReadFile(s.Path(2)))
	if _, err := s.Verify(3); !errors.Is(err, ErrCorrupt) {
		t.Errorf("snapshot 2 under the name of 3: %v, want ErrCorrupt", err)
	}
	if err := s.Prune(0); err != nil {
		t.Fatal(err)
	}
	if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{3}) {
		t.Errorf("after Prune(0) there are %v, %v; want the newest", got, err)
	}
}

// A snapshot that is not whole, or not the announced one, leaves nothing behind.
func TestSnapshotLeavesNothing(t *testing.T) {
	a, disk := testSnapshots(t, waltest.NewDisk()), waltest.NewDisk()
	save(t, a, 9, "body")
	b := testSnapshots(t, disk)
	if _, err := b.Import(8, bytes.NewReader(snapshotBytes(t, a, 9))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another index than announced: %v, want ErrCorrupt", err)
	}
	func() {
		defer func() { recover() }()
		b.Save(SnapshotInfo{Index: 7}, func(io.Writer) error { panic("the caller's") })
	}()
	nothing := func(after string) {
		t.Helper()
		names, err := disk.FS().ReadDir(b.Dir())
		if err != nil || len(names) > 0 {
			t.Errorf("after %s there are %q, %v; want nothing", after, names, err)
		}
	}
	nothing("a snapshot of another index, and one whose body panics")

	fs := disk.FS()
	c := create(t, "/e", Options{FS: fs}).Snapshots()
	for _, op := range []string{"write", "sync", "rename"} {
		fs.Fault = func(asked, path string) error {
			if asked == op {
				return syscall.EIO
			}
			return nil
		}
		saved := c.Save(SnapshotInfo{Index: 7}, body("body"))
		names, err := disk.FS().ReadDir(c.Dir())
		if !errors.Is(saved, syscall.EIO) || err != nil || len(names) > 0 {
			t.Errorf("a disk fails to %s: Save returns %v and leaves %q, %v; want nothing", op, saved, names, err)
		}
	}

	arrival, err := b.Receive(9, bytes.NewReader(snapshotBytes(t, a, 9)))
	if err != nil {
		t.Fatal(err)
	}
	if err := arrival.Discard(); err != nil {
		t.Errorf("Discard: %v", err)
	}
	nothing("an arrival that was discarded")
}

// A snapshot that the disk does not give is not damaged: an older one does not take its place, and
// it keeps its name.
func TestUnreadSnapshotIsNotDamaged(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	s := create(t, "/d", Options{FS: fs}).Snapshots()
	save(t, s, 1, "one")
	save(t, s, 2, "two")
	for _, op := range []string{"open", "size", "read"} {
		fs.Fault = func(asked, path string) error {
			if asked == op && path == s.Path(2) {
				return syscall.EIO
			}
			return nil
		}
		info, skipped, err := s.Newest(func(SnapshotInfo) bool { return true })
		if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) {
			t.Errorf("a disk fails to %s: snapshot %d, skipped %v, %v; want %v", op, info.Index, skipped, err, syscall.EIO)
		}
		fs.Fault = nil
		if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("then there are %v, %v; want 1 and 2", got, err)
		}
	}
}

// A large snapshot is synced on the way, so that the disk never has all of it to write while the log
// waits for its fsync; and not with each write, which would take long.
func TestLargeSnapshotsAreSyncedOnTheWay(t *testing.T) {
	fs := waltest.NewDisk().FS()
	s := create(t, "/d", Options{FS: fs, SegmentBytes: 4096}).Snapshots()
	syncs := 0
	fs.Fault = func(op, path string) error {
		if op == "sync" && strings.Contains(path, "snap") {
			syncs++
		}
		return nil
	}
	save(t, s, 1, bigBody)
	if want := len(bigBody)/SyncEveryBytes + 1; syncs != want {
		t.Errorf("%d bytes were synced %d times, want %d", len(bigBody), syncs, want)
	}
}

// Two may prune at a time: a snapshot that another has removed is gone, as it should be.
func TestPrunedBySomebodyElse(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	s := create(t, "/d", Options{FS: fs}).Snapshots()
	for index := range uint64(4) {
		save(t, s, index+1, "body")
	}
	fs.Fault = func(op, path string) error {
		if op == "remove" && path == s.Path(1) {
			return disk.FS().Remove(path)
		}
		return nil
	}
	if err := s.Prune(2); err != nil {
		t.Errorf("a snapshot is gone that was to go: %v", err)
	}
	if got, err := s.List(); err != nil || !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("then there are %v, %v; want 3 and 4", got, err)
	}
	fs.Fault = func(op, _ string) error {
		if op == "remove" {
			return syscall.EIO
		}
		return nil
	}
	if err := s.Prune(1); !errors.Is(err, syscall.EIO) {
		t.Errorf("a snapshot cannot be removed: %v, want %v", err, syscall.EIO)
	}
}

// A snapshot is whole when all of its file was read, whichever read it is that the disk fails at.
func TestSnapshotThatIsReadInPart(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	s := create(t, "/d", Options{FS: fs}).Snapshots()
	save(t, s, 1, strings.Repeat("z", ChunkBytes+1))
	disk.WriteFile(s.Path(1), append(disk.ReadFile(s.Path(1)), "more"...))
	for call := 1; ; call++ {
		calls := 0
		fs.Fault = func(op, _ string) error {
			if op == "read" {
				calls++
			}
			if calls == call {
				return syscall.EIO
			}
			return nil
		}
		_, err := s.Verify(1)
		if calls < call {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("something behind the end: %v, want ErrCorrupt", err)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("read %d fails: %v, want %v", call, err, syscall.EIO)
		}
	}
}

// Several snapshots may be written at a time, and received beside that: none is in another's file.
func TestSnapshotsThatAreWrittenAtATime(t *testing.T) {
	s, other := testSnapshots(t, waltest.NewDisk()), testSnapshots(t, waltest.NewDisk())
	save(t, other, 3, "three")
	var arrival *Arrival
	err := s.Save(SnapshotInfo{Index: 1}, func(w io.Writer) (err error) {
		save(t, s, 2, "two, which is longer")
		arrival, err = s.Receive(3, bytes.NewReader(snapshotBytes(t, other, 3)))
		if err == nil {
			_, err = io.WriteString(w, "one")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := arrival.Keep(); err != nil {
		t.Fatalf("an arrival beside others: %v", err)
	}
	for index, want := range map[uint64]string{1: "one", 2: "two, which is longer", 3: "three"} {
		if info, err := s.Verify(index); err != nil || info.Index != index {
			t.Errorf("snapshot %d beside others: %+v, %v", index, info, err)
		} else if _, got := load(t, s, index); got != want {
			t.Errorf("snapshot %d holds %q, want %q", index, got, want)
		}
	}
}

// An arrival that gets no name is not kept, and can be discarded.
func TestArrivalThatIsNotKept(t *testing.T) {
	other, fs := testSnapshots(t, waltest.NewDisk()), waltest.NewDisk().FS()
	save(t, other, 3, "three")
	s := create(t, "/d", Options{FS: fs}).Snapshots()
	arrival, err := s.Receive(3, bytes.NewReader(snapshotBytes(t, other, 3)))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"rename", "remove"} {
		fs.Fault = func(asked, _ string) error {
			if asked == op {
				return syscall.EIO
			}
			return nil
		}
		do := map[string]func() error{"rename": arrival.Keep, "remove": arrival.Discard}[op]
		if err := do(); !errors.Is(err, syscall.EIO) {
			t.Errorf("a disk fails to %s: %v, want %v", op, err, syscall.EIO)
		}
	}
	fs.Fault = nil
	if got, err := s.List(); err != nil || len(got) > 0 {
		t.Errorf("there are %v, %v; want none", got, err)
	}
	if err := arrival.Discard(); err != nil {
		t.Errorf("Discard: %v", err)
	}
}
