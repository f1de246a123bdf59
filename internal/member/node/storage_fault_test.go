package node

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// Each call of a disk that fails fails what is done at the time, and nothing goes on as if it had
// been written.
func TestEveryFailureOfADiskIsTold(t *testing.T) {
	entries := func(from, n uint64) (list []*raftpb.Entry) {
		for i := range n {
			list = append(list, &raftpb.Entry{Index: new(from + i), Term: new(uint64(1)), Data: make([]byte, 600)})
		}
		return list
	}
	conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	// A member's life, in steps.
	type life struct {
		fs *waltest.FS
		s  *storage
	}
	open := func(l *life) (err error) {
		l.s, _, err = openStorage("/data", testIdentity, wal.Options{FS: l.fs, SegmentBytes: 4 << 10}, slog.New(slog.DiscardHandler))
		return err
	}
	begin := func(l *life) error { _, _, err := l.s.begin(time.Second, true); return err }
	persist := func(force bool, rec replica.Record) func(*life) error {
		return func(l *life) error { return l.s.persist([]any{rec}, force) }
	}
	save := func(index uint64) func(*life) error {
		return func(l *life) error {
			return l.s.saveSnapshot(index, 1, conf, func(w io.Writer) error { _, err := w.Write(make([]byte, 9000)); return err })
		}
	}
	advance := func(index uint64) func(*life) error { return func(l *life) error { return l.s.advance(index) } }
	snapshot := func(index uint64) *raftpb.Snapshot {
		return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: new(uint64(1)), ConfState: conf}}
	}
	steps := []struct {
		name string
		do   func(*life) error
	}{
		{"open", open}, {"begin", begin},
		{"lazy entries", persist(false, replica.Record{Entries: entries(2, 4)})},
		{"entries", persist(true, replica.Record{Entries: entries(6, 20)})},
		{"a hard state", persist(true, replica.Record{HardState: &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(25))}})},
		{"a release", persist(true, replica.Record{Released: 20})},
		{"a snapshot", save(10)}, {"its use", advance(10)},
		{"a snapshot", save(20)}, {"its use", advance(20)},
		{"entries, and the release of segments", persist(true, replica.Record{Entries: entries(26, 4)})},
		{"a snapshot", save(24)}, {"its use", advance(24)},
		{"a snapshot of the leader's", save(60)},
		{"its record", persist(true, replica.Record{Snapshot: snapshot(60), HardState: &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(60))}})},
		{"its use", advance(60)},
		{"entries behind it", persist(true, replica.Record{Entries: entries(61, 3)})},
		{"close", func(l *life) error { return l.s.log.Close() }},
		{"open again", open}, {"begin again", begin},
		{"close again", func(l *life) error { return l.s.log.Close() }},
	}
	// Nothing rests on these: space that is not set aside is found later, or is not, and what is not
	// unlocked is so when the process ends.
	idle := []string{"preallocate", "unlock"}
	points := 0
	for at := 1; ; at++ {
		l := &life{fs: waltest.NewDisk().FS()}
		calls, failed := 0, ""
		l.fs.Fault = func(op, path string) error {
			if slices.Contains(idle, op) {
				return nil
			}
			if calls++; calls == at {
				failed = op + " " + path
				return errDisk
			}
			return nil
		}
		for _, step := range steps {
			err := step.do(l)
			if failed == "" && err != nil {
				t.Fatalf("%s, with a disk that works: %v", step.name, err)
			}
			if failed != "" {
				if !errors.Is(err, errDisk) {
					t.Errorf("call %d, %s, fails during %s: %v, want %v", at, failed, step.name, err, errDisk)
				}
				break
			}
		}
		if failed == "" {
			break
		}
		points++
	}
	if points < 50 {
		t.Errorf("%d calls have failed, and there should be many more", points)
	}
	t.Logf("%d points", points)
}
