package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

func entriesOf(term uint64, from, to uint64) (list []*raftpb.Entry) {
	for i := from; i <= to; i++ {
		list = append(list, &raftpb.Entry{Index: &i, Term: &term, Data: []byte{byte(i)}})
	}
	return list
}

func hardStateOf(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func storageOn(t *testing.T, disk wal.FS) (*storage, replica.Log) {
	t.Helper()
	s, log, err := openStorage("/data", testIdentity, wal.Options{FS: disk, SegmentBytes: 8 << 10}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

func (s *storage) persistAll(t *testing.T, records ...replica.Record) {
	t.Helper()
	var list []any
	for _, r := range records {
		list = append(list, r)
	}
	if err := s.persist(list, true); err != nil {
		t.Fatal(err)
	}
}

func (s *storage) save(t *testing.T, index, term uint64, conf *raftpb.ConfState) {
	t.Helper()
	if err := s.saveSnapshot(index, term, conf, func(w io.Writer) error { _, err := w.Write([]byte("state")); return err }); err != nil {
		t.Fatal(err)
	}
}

// A reopened log gives back its records, and later writes continue from them.
func TestWhatIsKnownWhenALogIsOpened(t *testing.T) {
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{7}}
	at := func(index, term uint64) *raftpb.SnapshotMetadata {
		return &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}
	}
	for _, tt := range []struct {
		name     string
		do       func(s *storage)
		snap     uint64
		entries  string // first to last
		hard     string // term, vote, commit
		released uint64
		reach    []uint64 // the last entry of each record of entries
	}{
		{"entries", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 4), Released: 3})
		}, 1, "2 to 6", "2 3 4", 3, []uint64{6}},
		{"entries that were replaced", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 3)}, replica.Record{Entries: entriesOf(3, 4, 5), HardState: hardStateOf(3, 0, 4)})
		}, 1, "2 to 5", "3 0 4", 0, []uint64{6, 5}},
		{"a snapshot of its own", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 6), Released: 2})
			s.save(t, 4, 2, conf)
		}, 4, "5 to 6", "2 3 6", 2, []uint64{6}},
		{"a snapshot of its own, of all", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 6), Released: 6})
			s.save(t, 6, 2, conf)
		}, 6, "", "2 3 6", 6, []uint64{6}},
		{"a leader's snapshot, and entries behind it", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 4)})
			s.save(t, 9, 3, conf)
			s.persistAll(t, replica.Record{Snapshot: &raftpb.Snapshot{Metadata: at(9, 3)}, HardState: hardStateOf(3, 1, 9)})
			s.persistAll(t, replica.Record{Entries: entriesOf(3, 10, 11), Released: 8})
		}, 9, "10 to 11", "3 1 9", 8, []uint64{6, 11}},
		{"a leader's snapshot that the log does not know", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 4), Released: 4})
			s.save(t, 9, 3, conf)
		}, 9, "", "3 0 9", 4, []uint64{6}},
		{"a leader's snapshot within the log, of another term", func(s *storage) {
			s.persistAll(t, replica.Record{Entries: entriesOf(2, 2, 6), HardState: hardStateOf(2, 3, 3)})
			s.save(t, 5, 3, conf)
		}, 5, "", "3 0 5", 0, []uint64{6}},
	} {
		disk := waltest.NewDisk().FS()
		s, _ := storageOn(t, disk)
		if _, _, err := s.begin(5, true); err != nil {
			t.Fatal(err)
		}
		tt.do(s)
		s.log.Close()
		for again := range 2 {
			name := fmt.Sprintf("%s, opened %d times", tt.name, again+1)
			s, log := storageOn(t, disk)
			if got := log.Snapshot.GetIndex(); got != tt.snap || s.newest != tt.snap {
				t.Errorf("%s: snapshot %d, and %d is in use, want %d", name, got, s.newest, tt.snap)
			}
			if tt.snap > 1 && (!reflect.DeepEqual(log.Snapshot.GetConfState().GetLearners(), conf.Learners) || !reflect.DeepEqual(log.Snapshot.GetConfState().GetVoters(), conf.Voters)) {
				t.Errorf("%s: the snapshot's members are %v, want %v", name, log.Snapshot.GetConfState(), conf)
			}
			var entries string
			if k := len(log.Entries); k > 0 {
				entries = fmt.Sprintf("%d to %d", log.Entries[0].GetIndex(), log.Entries[k-1].GetIndex())
			}
			if entries != tt.entries {
				t.Errorf("%s: entries %q, want %q", name, entries, tt.entries)
			}
			for _, h := range []*raftpb.HardState{log.HardState, s.hard} {
				if got := fmt.Sprintf("%d %d %d", h.GetTerm(), h.GetVote(), h.GetCommit()); got != tt.hard {
					t.Errorf("%s: term, vote and commit are %s, want %s", name, got, tt.hard)
				}
			}
			if log.Released != tt.released || s.released != tt.released {
				t.Errorf("%s: released up to %d, and %d to be written anew, want %d", name, log.Released, s.released, tt.released)
			}
			var reach []uint64
			for _, r := range s.reach {
				reach = append(reach, r.index)
			}
			if !slices.Equal(reach, tt.reach) {
				t.Errorf("%s: the records of entries end with %d, want %d", name, reach, tt.reach)
			}
			if !reflect.DeepEqual(s.identity, testIdentity) || s.life.Starts != 1 || s.life.PromiseTTL != 5 {
				t.Errorf("%s: it is the log of %+v, with %+v", name, s.identity, s.life)
			}
			s.log.Close()
		}
	}
}

// The log is kept back to the snapshot before the newest, and not further.
func TestHowFarALogIsKept(t *testing.T) {
	s, _ := storageOn(t, waltest.NewDisk().FS())
	defer s.log.Close()
	for from := uint64(2); from < 20; from += 3 { // to 4, 7, 10, 13, 16 and 19
		s.persistAll(t, replica.Record{Entries: entriesOf(1, from, from+2), HardState: hardStateOf(1, 0, from)})
	}
	for _, tt := range []struct {
		advance, newest, keepFrom uint64
		kept                      int // records of entries
	}{{7, 7, 0, 6}, {10, 10, 7, 4}, {9, 10, 7, 4}, {10, 10, 7, 4}, {15, 15, 10, 3}, {19, 19, 15, 2}, {25, 25, 19, 2}} {
		if err := s.advance(tt.advance); err != nil {
			t.Fatal(err)
		}
		s.persistAll(t)
		if s.newest != tt.newest || s.keepFrom != tt.keepFrom || len(s.reach) != tt.kept {
			t.Errorf("with a snapshot at %d: newest %d, kept from %d, %d records of entries; want %d, %d, %d", tt.advance, s.newest, s.keepFrom, len(s.reach), tt.newest, tt.keepFrom, tt.kept)
		}
	}
}

// A log needs the very snapshot that it goes on from: entries of any number, even one, may be missing
// behind an earlier one.
func TestEntriesThatAreMissingBehindASnapshot(t *testing.T) {
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
	for there, starts := range map[uint64]bool{9: true, 8: false, 7: false} {
		disk := waltest.NewDisk().FS()
		s, _ := storageOn(t, disk)
		index, term := uint64(9), uint64(3)
		s.save(t, there, 3, conf)
		s.persistAll(t, replica.Record{Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}, HardState: hardStateOf(3, 1, 9)})
		s.persistAll(t, replica.Record{Entries: entriesOf(3, 10, 14), HardState: hardStateOf(3, 1, 9)})
		s.log.Close()
		s, log, err := openStorage("/data", testIdentity, wal.Options{FS: disk}, slog.New(slog.DiscardHandler))
		switch {
		case err == nil:
			s.log.Close()
			if !starts {
				t.Errorf("with snapshot %d and entries from 10 on, it goes on from snapshot %d with %d entries, want it refused", there, log.Snapshot.GetIndex(), len(log.Entries))
			}
		case starts || !strings.Contains(err.Error(), "deleted by hand"):
			t.Errorf("with snapshot %d and entries from 10 on: %v", there, err)
		}
	}
}

// What need not be durable is with the kernel when it counts as written, and costs no sync.
func TestAnUnforcedRecordOutlivesItsProcess(t *testing.T) {
	disk := waltest.NewDisk().FS()
	s, _ := storageOn(t, disk)
	defer s.log.Close()
	syncs := 0
	disk.Fault = func(op, _ string) error {
		if op == "sync" {
			syncs++
		}
		return nil
	}
	before := s.log.LastSeq()
	if err := s.persist([]any{replica.Record{Entries: entriesOf(1, 2, 3)}, replica.Record{HardState: hardStateOf(1, 0, 2)}}, false); err != nil {
		t.Fatal(err)
	}
	r := s.log.Reader(before + 1)
	defer r.Close()
	for _, kind := range []byte{recordEntries, recordHardState} {
		if got, err := r.Next(); err != nil || got.Kind != kind {
			t.Errorf("the kernel has a record of kind %d, %v; want one of kind %d of what was written", got.Kind, err, kind)
		}
	}
	if syncs > 0 {
		t.Errorf("%d syncs for records that need not be durable", syncs)
	}
}

// A log that is not gone on with is let go: its directory can be opened by another process.
func TestAStorageThatFailsIsLetGo(t *testing.T) {
	free := func(name string, disk wal.FS) {
		t.Helper()
		lock, err := disk.Lock("/data/lock")
		if err != nil {
			t.Errorf("%s: the directory is locked: %v", name, err)
			return
		}
		lock.Close()
	}
	opts := func(disk wal.FS) wal.Options { return wal.Options{FS: disk, SegmentBytes: 8 << 10} }
	logger := slog.New(slog.DiscardHandler)
	failures := 0
	for k := 0; ; k++ {
		disk := waltest.NewDisk().FS()
		n := 0
		disk.Fault = func(op, _ string) error {
			if op == "lock" {
				return nil
			}
			if n++; n == k+1 {
				return errDisk
			}
			return nil
		}
		s, _, err := openStorage("/data", testIdentity, opts(disk), logger)
		if n <= k {
			s.log.Close()
			break // nothing has failed
		}
		disk.Fault = nil
		if err != nil {
			failures++
			free(fmt.Sprintf("call %d of the disk fails", k+1), disk)
		} else {
			s.log.Close()
		}
	}
	if failures < 5 {
		t.Errorf("only %d failures of a disk were told", failures)
	}
	disk := waltest.NewDisk().FS()
	l, err := wal.Create("/data", []byte("no identity"), opts(disk))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if s, _, err := openStorage("/data", testIdentity, opts(disk), logger); err == nil || !strings.Contains(err.Error(), "is not a member's identity") {
		t.Errorf("a log of somebody else's: %v", err)
		if err == nil {
			s.log.Close()
		}
	}
	free("a log of somebody else's", disk)
}

// A snapshot has its name before the log says that it goes on from there.
func TestASnapshotIsKeptBeforeTheLogGoesOnFromIt(t *testing.T) {
	from, _ := storageOn(t, waltest.NewDisk().FS())
	defer from.log.Close()
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
	from.save(t, 9, 3, conf)
	file, _, err := from.log.Snapshots().Export(9)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	whole, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	disk := waltest.NewDisk().FS()
	s, _ := storageOn(t, disk)
	received, err := s.log.Snapshots().Receive(9, bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	s.arrivals.add(&arrival{Arrival: received})
	s.arrivals.take(9, 3)
	disk.Fault = func(op, _ string) error {
		if op == "rename" {
			return errDisk
		}
		return nil
	}
	index, term := uint64(9), uint64(3)
	before := s.log.LastSeq()
	mark := replica.Record{Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}, HardState: hardStateOf(3, 0, 9)}
	if err := s.persist([]any{mark}, true); !errors.Is(err, errDisk) {
		t.Errorf("a snapshot that does not get its name: %v, want %v", err, errDisk)
	}
	if got := s.log.LastSeq(); got != before {
		t.Errorf("%d records are written of a snapshot that has no name", got-before)
	}
	s.log.Close()
}

// A snapshot that is damaged is not gone on from: the one before it is, if the log goes on from there, and
// nothing at all if there is none.
func TestWhatADamagedSnapshotLeaves(t *testing.T) {
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
	damage := func(disk wal.FS, index uint64) {
		t.Helper()
		f, err := disk.OpenFile(snapshotFile(index), os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte("X"), 40)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	disk := waltest.NewDisk().FS()
	s, _ := storageOn(t, disk)
	index, term := uint64(9), uint64(3)
	s.save(t, 9, 3, conf)
	s.persistAll(t, replica.Record{Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}, HardState: hardStateOf(3, 1, 9)})
	s.persistAll(t, replica.Record{Entries: entriesOf(3, 10, 14), HardState: hardStateOf(3, 1, 13)})
	s.save(t, 12, 3, conf)
	s.log.Close()
	damage(disk, 12)
	s, log, err := openStorage("/data", identity{Cluster: 1, Member: 99}, wal.Options{FS: disk}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("the newest of two snapshots is damaged: %v", err)
	}
	if log.Snapshot.GetIndex() != 9 || len(log.Entries) != 5 || s.newest != 9 {
		t.Errorf("the newest of two snapshots is damaged: it goes on from %d with %d entries, want 9 with 5", log.Snapshot.GetIndex(), len(log.Entries))
	}
	if !reflect.DeepEqual(s.identity, testIdentity) {
		t.Errorf("opened by another member it is the log of %+v", s.identity)
	}
	s.log.Close()

	disk = waltest.NewDisk().FS()
	s, _ = storageOn(t, disk)
	s.save(t, 9, 3, conf)
	s.log.Close()
	damage(disk, 9)
	if s, _, err := openStorage("/data", testIdentity, wal.Options{FS: disk}, slog.New(slog.DiscardHandler)); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("the only snapshot is damaged, and nothing is in the log: %v, want %v", err, wal.ErrCorrupt)
		if err == nil {
			s.log.Close()
		}
	}
}
