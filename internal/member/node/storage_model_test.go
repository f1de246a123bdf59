package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

var testIdentity = identity{Cluster: 7, Member: 2, Voters: []uint64{1, 2, 3}}

// bench is a storage on a disk that crashes, and what it should remember.
type bench struct {
	t    *testing.T
	disk *waltest.Disk
	s    *storage
	log  replica.Log // as found at the last start

	told uint64 // up to where the leader's snapshots have said that the log is committed

	ops, crashAt int // calls of the file system, and the one at which it crashes

	now   raftState   // with all that was written
	maybe []raftState // the states since the last that was synced, that one first
}

// raftState is what a member must not forget. Entries are terms, by index.
type raftState struct {
	term, vote, commit uint64
	snap, snapTerm     uint64
	released           uint64 // it may be ahead of commit, which is written later
	last               uint64
	entries            map[uint64]uint64
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, disk: waltest.NewDisk()}
	b.begin()
	b.start()
	return b
}

// begin expects a fresh member.
func (b *bench) begin() {
	b.now = raftState{term: 1, commit: 1, snap: 1, snapTerm: 1, last: 1, entries: map[uint64]uint64{}}
	b.maybe = []raftState{b.now}
}

// open starts a process on the disk.
func (b *bench) open() error {
	var err error
	disk := b.disk.FS()
	disk.Fault = func(op, _ string) error {
		if b.ops++; b.ops == b.crashAt {
			b.disk.Kill()
		}
		return nil
	}
	b.s, b.log, err = openStorage("/data", testIdentity, wal.Options{FS: disk, SegmentBytes: 8 << 10}, slog.New(slog.DiscardHandler))
	return err
}

func (b *bench) start() {
	b.t.Helper()
	b.check(b.open())
	var why []string
	for i := len(b.maybe) - 1; i >= 0; i-- {
		found, reason := b.matches(b.maybe[i])
		if reason == "" {
			b.now, b.maybe = found, []raftState{found}
			return
		}
		why = append(why, reason)
	}
	b.t.Fatalf("what was found after a restart is none of the states since the last sync: snapshot %d, %d entries, %v\n%s",
		b.log.Snapshot.GetIndex(), len(b.log.Entries), b.log.HardState, strings.Join(why, "\n"))
}

// matches reports whether what was found at the start is st, or st with a newer
// snapshot that was durable before the record of it, and what it is then.
func (b *bench) matches(st raftState) (found raftState, reason string) {
	hard, snap := b.log.HardState, b.log.Snapshot
	at, term := snap.GetIndex(), snap.GetTerm()
	if at < st.snap {
		return found, fmt.Sprintf("snapshot %d, want %d or newer", at, st.snap)
	}
	st.entries = maps.Clone(st.entries)
	if at > st.snap && st.entries[at] != term { // the leader's, and not ours
		clear(st.entries)
		st.last = at
	}
	for i := st.snap; i <= at; i++ {
		delete(st.entries, i)
	}
	st.snap, st.snapTerm = at, term
	st.commit = max(st.commit, at)
	if st.term < term {
		st.term, st.vote = term, 0
	}
	if hard.GetTerm() != st.term || hard.GetVote() != st.vote || hard.GetCommit() != st.commit {
		return found, fmt.Sprintf("hard state %v, want term %d vote %d commit %d", hard, st.term, st.vote, st.commit)
	}
	if want := min(st.released, st.commit); b.log.Released != want {
		return found, fmt.Sprintf("released up to %d, want %d of what is known to be committed up to %d", b.log.Released, want, st.commit)
	}
	if len(b.log.Entries) != len(st.entries) {
		return found, fmt.Sprintf("%d entries, want %d", len(b.log.Entries), len(st.entries))
	}
	for i, e := range b.log.Entries {
		if want := at + 1 + uint64(i); e.GetIndex() != want || e.GetTerm() != st.entries[want] || string(e.GetData()) != entryData(want, e.GetTerm()) {
			return found, fmt.Sprintf("entry %d of term %d, want %d of term %d", e.GetIndex(), e.GetTerm(), want, st.entries[want])
		}
	}
	return st, ""
}

func entryData(index, term uint64) string {
	return fmt.Sprintf("%d/%d%s", index, term, strings.Repeat("x", int(index*7%900)))
}

func (b *bench) write(rec replica.Record, force bool) {
	b.t.Helper()
	if old := b.maybe[len(b.maybe)-1]; len(rec.Entries) > 0 && rec.HardState != nil {
		// A crash may come between the two. Nothing that needs both was said.
		half := b.now
		half.term, half.vote, half.commit = old.term, old.vote, old.commit
		b.maybe = append(b.maybe, half)
	}
	b.maybe = append(b.maybe, b.now)
	b.check(b.s.persist([]any{rec}, force))
	if force {
		b.maybe = []raftState{b.now}
	}
}

// check fails the test, unless the error is the crash that it wants.
func (b *bench) check(err error) {
	b.t.Helper()
	if errors.Is(err, waltest.ErrCrashed) {
		panic(waltest.ErrCrashed)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// append writes n entries of the present term from index on, and the hard state.
func (b *bench) append(from uint64, n int, force bool) {
	b.t.Helper()
	var rec replica.Record
	b.now.entries = maps.Clone(b.now.entries) // the states before keep theirs
	for i := from; i <= b.now.last; i++ {
		delete(b.now.entries, i)
	}
	for i := from; i < from+uint64(n); i++ {
		term := b.now.term
		rec.Entries = append(rec.Entries, &raftpb.Entry{Index: &i, Term: &term, Data: []byte(entryData(i, term))})
		b.now.entries[i], b.now.last = term, i
	}
	if old := b.maybe[len(b.maybe)-1]; old.term != b.now.term || old.vote != b.now.vote || old.commit != b.now.commit {
		rec.HardState = b.hard()
	}
	b.write(rec, force)
}

// release writes that the log is released up to an index.
func (b *bench) release(at uint64, force bool) {
	b.t.Helper()
	b.now.released = at
	b.write(replica.Record{Released: at}, force)
}

func (b *bench) hard() *raftpb.HardState {
	term, vote, commit := b.now.term, b.now.vote, b.now.commit
	return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

// save makes a snapshot of the member's own, of what is durable and committed.
func (b *bench) save(at uint64) {
	b.t.Helper()
	b.file(at, b.now.entries[at])
	b.advance(at)
}

func (b *bench) advance(at uint64) {
	b.t.Helper()
	b.check(b.s.advance(at))
}

func (b *bench) file(at, term uint64) {
	b.t.Helper()
	err := b.s.saveSnapshot(at, term, &raftpb.ConfState{Voters: testIdentity.Voters}, func(w io.Writer) error {
		_, err := io.WriteString(w, entryData(at, term))
		return err
	})
	b.check(err)
}

// restore writes that the log goes on from a snapshot of the leader's, whose
// file is there.
func (b *bench) restore(at, term uint64, force bool) {
	b.t.Helper()
	b.now.snap, b.now.snapTerm, b.now.last, b.now.commit = at, term, at, at
	b.now.entries = map[uint64]uint64{}
	md := &raftpb.SnapshotMetadata{Index: &at, Term: &term, ConfState: &raftpb.ConfState{Voters: testIdentity.Voters}}
	b.write(replica.Record{Snapshot: &raftpb.Snapshot{Metadata: md}, HardState: b.hard()}, force)
}

// mayDie lets the process or the machine die and start again, sometimes.
func (b *bench) mayDie(r *rand.Rand) (died bool) {
	b.t.Helper()
	switch r.IntN(4) {
	case 0:
		b.disk.Crash(r)
	case 1:
		b.kill()
	default:
		return false
	}
	b.start()
	return true
}

// kill ends the process; what it wrote is still in the page cache.
func (b *bench) kill() {
	b.t.Helper()
	b.check(b.s.log.Close())
}

// damage flips a bit in the middle of a file.
func (b *bench) damage(path string) {
	b.t.Helper()
	file := b.disk.ReadFile(path)
	if file == nil {
		b.t.Fatalf("no file %s", path)
	}
	file[len(file)/2] ^= 4
	b.disk.WriteFile(path, file)
}

func (b *bench) remove(path string) {
	b.t.Helper()
	if err := b.disk.FS().Remove(path); err != nil {
		b.t.Fatal(err)
	}
}
