package replica

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

func entryAt(index, term uint64, size int) *raftpb.Entry {
	return &raftpb.Entry{Index: &index, Term: &term, Data: make([]byte, size)}
}

func snapshotAt(index, term uint64) *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1}}}
}

// A tail holds the newest entry of each index, reaches back at least to the newest snapshot, and gives
// memory back as documented.
func TestTailAgainstModel(t *testing.T) {
	const keep = 4000
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tl := newTail(nil, snapshotAt(1, 1), nil, keep)
		terms := map[uint64]uint64{1: 1} // of everything that was ever appended and is valid
		last, term := uint64(1), uint64(1)
		for range 60 {
			switch p := rnd.Float64(); {
			case p < 0.6: // append, sometimes over entries that the snapshot does not cover
				from := last + 1
				if rnd.Float64() < 0.3 {
					from = tl.snap.GetIndex() + 1 + rnd.Uint64N(last+1-tl.snap.GetIndex())
					term++
				}
				var entries []*raftpb.Entry
				last = from - 1
				for range 1 + rnd.IntN(5) {
					last++
					entries = append(entries, entryAt(last, term, rnd.IntN(600)))
					terms[last] = term
				}
				tl.append(entries)
			case p < 0.9: // a snapshot of the state at some applied index
				index := tl.snap.GetIndex() + rnd.Uint64N(last+1-tl.snap.GetIndex())
				newer := index > tl.snap.GetIndex()
				tl.snapshotted(snapshotAt(index, terms[index]))
				if newer && tl.covered > 0 && tl.bytes > keep {
					t.Fatalf("seed %d: %d bytes kept of which a snapshot covers %d, want %d at most", seed, tl.bytes, tl.covered, keep)
				}
			default: // a snapshot from the leader, within or beyond what there is
				term++
				index := tl.snap.GetIndex() + 1 + rnd.Uint64N(last+10-tl.snap.GetIndex())
				last = index
				terms[index] = term
				tl.restored(snapshotAt(index, term))
			}
			checkTail(t, seed, tl, last, terms)
		}
	}
}

func checkTail(t *testing.T, seed uint64, tl *tail, last uint64, terms map[uint64]uint64) {
	t.Helper()
	if tl.last() != last {
		t.Fatalf("seed %d: the log ends at %d, want %d", seed, tl.last(), last)
	}
	if snap := tl.snap.GetIndex(); tl.first() > snap+1 {
		t.Fatalf("seed %d: the log begins at %d, after the snapshot at %d", seed, tl.first(), snap)
	}
	bytes, covered := 0, 0
	for i := tl.first(); i <= last; i++ {
		if got, err := tl.Term(i); err != nil || got != terms[i] {
			t.Fatalf("seed %d: entry %d has term %d (%v), want %d", seed, i, got, err, terms[i])
		}
		es, err := tl.Entries(i, i+1, 0)
		if err != nil || len(es) != 1 || es[0].GetIndex() != i {
			t.Fatalf("seed %d: entry %d is %v (%v)", seed, i, es, err)
		}
		bytes += entryBytes(es[0])
		if i <= tl.snap.GetIndex() {
			covered += entryBytes(es[0])
		}
	}
	if bytes != tl.bytes || covered != tl.covered {
		t.Fatalf("seed %d: counts %d bytes, %d covered; want %d, %d", seed, tl.bytes, tl.covered, bytes, covered)
	}
	if _, err := tl.Entries(tl.first()-1, last+1, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("seed %d: an entry before the first: %v", seed, err)
	}
	if _, err := tl.Term(last + 1); !errors.Is(err, raft.ErrUnavailable) {
		t.Fatalf("seed %d: a term beyond the last: %v", seed, err)
	}
}

// Entries returns at least one entry and otherwise respects its limit.
func TestTailEntriesLimit(t *testing.T) {
	tl := newTail(nil, snapshotAt(1, 1), []*raftpb.Entry{entryAt(2, 1, 100), entryAt(3, 1, 100), entryAt(4, 1, 100)}, 1<<20)
	for limit, want := range map[uint64]int{0: 1, 123: 1, 124: 1, 248: 2, 371: 2, 372: 3, 1 << 20: 3} {
		if got, err := tl.Entries(2, 5, limit); err != nil || len(got) != want {
			t.Errorf("limit %d: %d entries (%v), want %d", limit, len(got), err, want)
		}
	}
}

// The tail of a follower whose snapshots never complete exceeds its bound by at most one message. It
// goes on once there is a snapshot.
func TestAFollowersTailIsBounded(t *testing.T) {
	const limit, size = 64 << 10, 8 << 10
	a := NewApplier(2, 1)
	a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}}))
	r, err := New(Config{
		ID: 2, Boot: 1, Tick: 100 * time.Millisecond, ElectionTicks: 10, MaxTailBytes: limit,
		Log: Genesis([]machine.NodeID{1, 2, 3}), Restored: a.Restored(),
	}, machine.Now{Mono: machine.Mono(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var todo []any
	step := func(in any) {
		todo = append(todo, in)
		for len(todo) > 0 {
			labstage.Feed(r, machine.Now{Mono: machine.Mono(time.Hour)}, todo[0])
			todo = todo[1:]
			for _, p := range r.Ready().Persists {
				for _, env := range p.Then {
					if env.To == 2 {
						todo = append(todo, env)
					}
				}
			}
		}
	}
	first := r.tail.last()
	send := func(e *raftpb.Entry) {
		from, to, term, prev, prevTerm := uint64(1), uint64(2), uint64(2), e.GetIndex()-1, uint64(2)
		if prev == first {
			prevTerm, _ = r.tail.Term(first)
		}
		step(machine.Envelope{From: 1, To: 2, Body: &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: &from, To: &to, Term: &term, Index: &prev, LogTerm: &prevTerm, Entries: []*raftpb.Entry{e},
		}})
	}
	body, err := EncodeRequest(&pb.PutRequest{Key: []byte("k"), Value: make([]byte, size)})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(i uint64) *raftpb.Entry {
		return logEntry(i, 2, (&batch{Term: 2, From: 1, Boot: 9, Seq: i, Requests: []Propose{{ID: i, Body: body}}}).encode())
	}
	for i := range uint64(100) {
		send(entry(first + 1 + i))
	}
	taken := r.tail.last() - first
	if got := r.tail.sinceSnapshot(); got > limit+limit/4+2*size {
		t.Errorf("it holds %d bytes of log, and may hold %d and one message", got, limit+limit/4)
	}
	if taken < limit/size {
		t.Errorf("it took %d entries of %d, and has room for %d", taken, size, limit/size)
	}
	r.tail.snapshotted(snapshotAt(r.tail.last(), 2))
	last := r.tail.last()
	send(entry(last + 1))
	if r.tail.last() != last+1 {
		t.Error("with room again it takes nothing")
	}
}

// A snapshot, whether the leader's or this member's own, is kept together with its members. They are
// sent to a new member, and are used at the next start.
func TestSnapshotsNameTheirMembers(t *testing.T) {
	tl := newTail(nil, snapshotAt(1, 1), []*raftpb.Entry{entryAt(2, 1, 5), entryAt(3, 1, 5)}, 0)
	of := func(index uint64, voters ...uint64) *raftpb.SnapshotMetadata {
		md := snapshotAt(index, 1)
		md.ConfState.Voters = voters
		return md
	}
	wants := func(name string, kept, sent int) {
		t.Helper()
		_, conf, _ := tl.InitialState()
		snap, err := tl.Snapshot()
		if err != nil || len(conf.GetVoters()) != kept || len(snap.GetMetadata().GetConfState().GetVoters()) != sent {
			t.Errorf("%s: raft goes by voters %d, and is given a snapshot %v, %v; want %d and %d voters", name, conf.GetVoters(), snap, err, kept, sent)
		}
	}
	tl.conf = &raftpb.ConfState{Voters: []uint64{1, 2, 3}} // by a change that is committed, and not in the snapshot
	tl.snapshotted(of(2, 1, 2))
	wants("its own", 3, 2)
	tl.restored(of(9, 1, 2, 3, 4))
	wants("the leader's", 4, 4)
}

// The bound for proposals covers the log after the snapshot. Entries that are kept before it for slow
// members take no room.
func TestProposalsAreBoundedBehindTheSnapshot(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	r := s.members[0].r
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 9}).encode()
	r.tail.bytes, r.tail.covered = 3*r.cfg.MaxTailBytes, 2*r.cfg.MaxTailBytes
	if !r.append(r.term, entry, nil) {
		t.Error("a batch is refused for what is before the snapshot")
	}
	r.tail.covered--
	if r.append(r.term, entry, nil) {
		t.Error("a batch is taken behind more than may be behind the snapshot")
	}
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
	r.Step(machine.Now{Mono: s.now}, Snapshotted{Index: 2, Term: r.term, ConfState: conf})
	if got := r.tail.snap; got.GetIndex() != 2 || got.GetTerm() != r.term || len(got.GetConfState().GetVoters()) != 2 {
		t.Errorf("a snapshot of 2 with two voters is known as %v", got)
	}
}

// A snapshot that raft needs is wanted until there is one that contains the newcomer.
func TestASnapshotForTheNewcomerIsWanted(t *testing.T) {
	entries := []*raftpb.Entry{entryAt(2, 1, 5), entryAt(3, 1, 5), entryAt(4, 1, 5)}
	unasked := newTail(nil, snapshotAt(1, 1), entries, 0)
	unasked.joined = 3
	if unasked.snapshotted(snapshotAt(2, 1)); unasked.missed {
		t.Error("before raft has asked for a snapshot, one is wanted")
	}
	tl := newTail(nil, snapshotAt(1, 1), entries, 0)
	tl.joined = 3
	if _, err := tl.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) || !tl.missed {
		t.Errorf("without a snapshot of entry 3: %v, one is wanted: %v", err, tl.missed)
	}
	for _, c := range []struct {
		index  uint64
		missed bool
	}{{2, true}, {3, false}} {
		if tl.snapshotted(snapshotAt(c.index, 1)); tl.missed != c.missed {
			t.Errorf("with a snapshot of %d, and a newcomer of entry 3, one is wanted: %v", c.index, tl.missed)
		}
		if snap, err := tl.Snapshot(); (err != nil) != c.missed || err == nil && snap.GetMetadata().GetIndex() != c.index {
			t.Errorf("with a snapshot of %d raft is given %v, %v, to send to the newcomer of entry 3", c.index, snap, err)
		}
	}
}

// A new member, voter or learner, is sent no snapshot from before its addition.
func TestNewcomersAreOfTheirEntry(t *testing.T) {
	url := []string{"http://m:9"}
	for name, c := range map[string]struct {
		asked *raftpb.ConfChange
		want  uint64
	}{
		"a voter":     {AddMember(9, url, false), 7},
		"a learner":   {AddMember(9, url, true), 7},
		"a removal":   {RemoveMember(3), 0},
		"another URL": {UpdateMember(3, url), 0},
	} {
		r := newStage(t).members[0].r
		r.reconfigure([]*raftpb.Entry{changeEntry(t, 7, 1, c.asked)})
		if r.tail.joined != c.want {
			t.Errorf("%s: snapshots are sent that know of entry %d, want %d", name, r.tail.joined, c.want)
		}
	}
}

// A completed write is recorded locally before others are informed of it. The known released index is
// written along with it, once.
func TestWhatIsWrittenIsKnownHereFirst(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	r := s.members[1].r
	r.reads.committed, r.reads.released, r.reads.recorded = 2, 2, 1
	r.persists = nil
	to, from, term, index := uint64(1), uint64(2), r.term, uint64(2)
	resp := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), To: &to, From: &from, Term: &term, Index: &index}
	rec := Record{Entries: []*raftpb.Entry{entryAt(3, term, 1)}}
	r.last = 9 // of which the leader has vouched for 2
	r.writes.acked = ack{}
	r.persist(&rec, []*raftpb.Message{resp})
	if len(r.persists) != 1 || len(r.persists[0].Then) != 2 {
		t.Fatalf("%+v is to be written, want one record and two messages", r.persists)
	}
	p := r.persists[0]
	if d, ok := p.Then[0].Body.(durable); !ok || p.Then[0].To != 2 || len(d.Record.Entries) != 1 || d.Since != r.now || d.Term != term || d.Index != 2 {
		t.Errorf("what is known first is %+v, want that the record is durable, and the leader's log up to 2", p.Then[0])
	}
	if !r.writes.repeats(resp) {
		t.Error("an acknowledgment behind a record is not known to repeat one that goes with the record")
	}
	if p.Then[1].To != 1 {
		t.Errorf("member %d is told, want 1", p.Then[1].To)
	}
	if got := p.Record.(Record).Released; got != 2 {
		t.Errorf("a record says that %d is released, want 2", got)
	}
	again := Record{Entries: []*raftpb.Entry{entryAt(4, term, 1)}}
	r.persist(&again, nil)
	if got := r.persists[1].Record.(Record).Released; got != 0 {
		t.Errorf("the next record says again that %d is released", got)
	}
}

// Raft may refer to parts of a tail while the tail changes, and those parts stay as they are. A
// snapshot counts if it is newer than the last one and lies within the log. Lookups find exactly the
// entries that exist.
func TestATailAsRaftSeesIt(t *testing.T) {
	begin := func() *tail {
		tl := newTail(&raftpb.HardState{}, snapshotAt(4, 2), nil, 1<<20)
		tl.append([]*raftpb.Entry{entryAt(5, 2, 10), entryAt(6, 2, 10), entryAt(7, 3, 10)})
		return tl
	}
	tl := begin()
	held, err := tl.Entries(5, 8, 1<<20)
	if err != nil || len(held) != 3 {
		t.Fatalf("%d entries, %v", len(held), err)
	}
	tl.append([]*raftpb.Entry{entryAt(6, 4, 10), entryAt(7, 4, 10)})
	if held[1].GetTerm() != 2 || held[2].GetTerm() != 3 || len(tl.entries) != 4 {
		t.Errorf("entries that raft holds have become those of another term: %v", held)
	}
	tl.append([]*raftpb.Entry{entryAt(3, 1, 10), entryAt(4, 2, 10), entryAt(5, 2, 10)}) // over again, from before the snapshot
	if tl.last() != 5 || tl.first() != 5 || tl.bytes != entryBytes(entryAt(5, 2, 10)) {
		t.Errorf("entries from before the snapshot are appended, and the log goes from %d to %d in %d bytes", tl.first(), tl.last(), tl.bytes)
	}
	for _, tt := range []struct {
		index, snap uint64
		covered     int
	}{{4, 4, 0}, {3, 4, 0}, {8, 4, 0}, {7, 7, 3}, {5, 5, 1}} {
		tl := begin()
		if tl.snapshotted(snapshotAt(tt.index, 2)); tl.snap.GetIndex() != tt.snap || tl.covered != tt.covered*entryBytes(entryAt(5, 2, 10)) {
			t.Errorf("a log from 5 to 7, with a snapshot of 4 and another of %d: the newest is of %d, and covers %d bytes; want of %d", tt.index, tl.snap.GetIndex(), tl.covered, tt.snap)
		}
	}
	tl = begin()
	tl.keepBytes = entryBytes(entryAt(5, 2, 10))
	tl.snapshotted(snapshotAt(6, 2))
	if term, err := tl.Term(6); tl.first() != 7 || term != 2 || err != nil || len(tl.entries[0].GetData()) > 0 {
		t.Errorf("memory is given back up to a snapshot of 6: the log goes from %d on, entry 6 is of term %d, %v, with %d bytes", tl.first(), term, err, len(tl.entries[0].GetData()))
	}
	tl = begin() // with room for two of three
	tl.keepBytes = 2 * entryBytes(entryAt(5, 2, 10))
	if tl.snapshotted(snapshotAt(7, 3)); tl.first() != 6 || tl.covered != tl.keepBytes {
		t.Errorf("a log is kept as far as there is room: from %d on, %d bytes of it covered; want from 6 on", tl.first(), tl.covered)
	}
	for _, tt := range []struct {
		lo, hi, size uint64
		n            int
		err          error
	}{{5, 8, 1 << 20, 3, nil}, {4, 8, 1 << 20, 0, raft.ErrCompacted}, {5, 9, 1 << 20, 0, raft.ErrUnavailable}, {5, 8, 1, 1, nil}, {5, 8, 2 * 34, 2, nil}, {5, 8, 2*34 - 1, 1, nil}} {
		tl := begin()
		if got, err := tl.Entries(tt.lo, tt.hi, tt.size); len(got) != tt.n || !errors.Is(err, tt.err) {
			t.Errorf("entries from %d to %d, of %d bytes at most: %d, %v; want %d, %v", tt.lo, tt.hi, tt.size, len(got), err, tt.n, tt.err)
		}
	}
	for index, want := range map[uint64]error{3: raft.ErrCompacted, 4: nil, 7: nil, 8: raft.ErrUnavailable} {
		tl := begin()
		if term, err := tl.Term(index); !errors.Is(err, want) || err == nil && term != map[uint64]uint64{4: 2, 7: 3}[index] {
			t.Errorf("the term of entry %d is %d, %v, want %v", index, term, err, want)
		}
	}
	// A snapshot that was asked for is had once the leader's has come.
	tl = begin()
	tl.missed = true
	tl.restored(snapshotAt(9, 3))
	if tl.missed || tl.last() != 9 || tl.snap.GetIndex() != 9 {
		t.Errorf("behind the leader's snapshot of 9 the log ends at %d, and another is wanted: %v", tl.last(), tl.missed)
	}
}

// An entry that was applied or replaced no longer divides keys. A snapshot that is being loaded may.
func TestWhatIsNotApplied(t *testing.T) {
	begin := func() *unapplied {
		return &unapplied{tail: []*raftpb.Entry{entryAt(5, 1, 0), entryAt(6, 1, 0), entryAt(7, 1, 0)}, settings: []uint64{5, 7}}
	}
	for applied, want := range map[uint64][]uint64{4: {5, 7}, 5: {7}, 6: {7}, 7: nil} {
		u := begin()
		if u.forget(applied); !slices.Equal(u.settings, want) || uint64(len(u.tail)) != 7-applied || u.unsettled() != (len(want) > 0) {
			t.Errorf("applied up to %d: keys are divided by %d, unsettled %v, and %d entries are left; want %d", applied, u.settings, u.unsettled(), len(u.tail), want)
		}
	}
	u := begin()
	held := u.tail
	u.cut(6)
	u.add([]*raftpb.Entry{entryAt(6, 2, 0)})
	if held[1].GetTerm() != 1 || !slices.Equal(u.settings, []uint64{5}) || len(u.tail) != 2 {
		t.Errorf("entries are replaced from 6 on: those that were given out are %v, keys are divided by %d", held, u.settings)
	}
	if u = (&unapplied{loading: 9}); !u.unsettled() {
		t.Error("keys are not divided anew, and a snapshot is being loaded that may do so")
	}
}

// A full log takes no more entries at its end. It takes those that replace its end, and everything that
// is no entry.
func TestWhatAFullLogTakes(t *testing.T) {
	const limit = 1000
	entries := []*raftpb.Entry{entryAt(6, 1, 1)}
	for _, tt := range []struct {
		name  string
		m     *raftpb.Message
		bytes int
		full  bool
	}{
		{"entries behind its end", &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(5)), Entries: entries}, limit + limit/4 + 1, true},
		{"entries far behind its end", &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(9)), Entries: entries}, limit + limit/4 + 1, true},
		{"entries in place of its last", &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(4)), Entries: entries}, limit + limit/4 + 1, false},
		{"no entries", &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(5))}, limit + limit/4 + 1, false},
		{"a heartbeat", &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Index: new(uint64(5)), Entries: entries}, limit + limit/4 + 1, false},
		{"entries that fit", &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(5)), Entries: entries}, limit + limit/4, false},
	} {
		r := keyReader(9)
		r.cfg.MaxTailBytes = limit
		r.tail = newTail(nil, snapshotAt(4, 1), []*raftpb.Entry{entryAt(5, 1, 1)}, limit)
		if r.tail.bytes = tt.bytes; r.full(tt.m) != tt.full {
			t.Errorf("a log of %d bytes up to 5 refuses %s: %v, want %v", tt.bytes, tt.name, !tt.full, tt.full)
		}
	}
}
