package replica

import (
	"errors"
	"math/rand/v2"
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

// A tail holds what was appended last at each index, reaches back to the newest
// snapshot at least, and gives memory back as promised.
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

// Entries holds at least one entry and otherwise keeps to its limit.
func TestTailEntriesLimit(t *testing.T) {
	tl := newTail(nil, snapshotAt(1, 1), []*raftpb.Entry{entryAt(2, 1, 100), entryAt(3, 1, 100), entryAt(4, 1, 100)}, 1<<20)
	for limit, want := range map[uint64]int{0: 1, 123: 1, 124: 1, 248: 2, 371: 2, 372: 3, 1 << 20: 3} {
		if got, err := tl.Entries(2, 5, limit); err != nil || len(got) != want {
			t.Errorf("limit %d: %d entries (%v), want %d", limit, len(got), err, want)
		}
	}
}

// A follower whose snapshots never come takes no more than its bound and one message, and
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

// A snapshot of the leader's, or of this member's own, is with the members that it names: they
// are what a new member is sent, and what this one starts with again.
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

// The bound of what may be proposed is for what is behind the snapshot: what is kept before it,
// for those who are slow, takes nothing away.
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

// A snapshot that raft was to send is wanted until there is one that knows of the newcomer.
func TestASnapshotForTheNewcomerIsWanted(t *testing.T) {
	tl := newTail(nil, snapshotAt(1, 1), []*raftpb.Entry{entryAt(2, 1, 5), entryAt(3, 1, 5), entryAt(4, 1, 5)}, 0)
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

// What becomes durable is known here before anybody is told of it, and with it is written what is
// known to be released, once.
func TestWhatIsWrittenIsKnownHereFirst(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	r := s.members[1].r
	r.reads.committed, r.reads.released, r.reads.recorded = 2, 2, 1
	r.persists = nil
	to, from, term, index := uint64(1), uint64(2), r.term, uint64(2)
	resp := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), To: &to, From: &from, Term: &term, Index: &index}
	rec := Record{Entries: []*raftpb.Entry{entryAt(3, term, 1)}}
	r.persist(&rec, []*raftpb.Message{resp})
	if len(r.persists) != 1 || len(r.persists[0].Then) != 2 {
		t.Fatalf("%+v is to be written, want one record and two messages", r.persists)
	}
	p := r.persists[0]
	if d, ok := p.Then[0].Body.(durable); !ok || p.Then[0].To != 2 || len(d.Record.Entries) != 1 || d.Since != r.now || d.Term != term {
		t.Errorf("what is known first is %+v, want that the record is durable", p.Then[0])
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
