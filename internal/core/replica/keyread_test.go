package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// serve answers the reads that are ready at a member that is not certain to be the leader.
func serve(r *Replica, until machine.Mono) {
	at := reading{positions: r.reads.positions, self: r.cfg.ID, now: r.now, until: until, patience: r.cfg.patience(), last: r.last}
	for _, ready := range r.reads.order().mayRead(at) {
		r.outcomes = append(r.outcomes, ready)
	}
}

// In strict order, a member that reads under its lease waits for its whole log. All of it may be
// released, and a caller that saw such an entry may expect it in this read.
func TestAReadInOrderWaitsForTheLog(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.stop()
	r.last, r.reads.handedOut = 12, 9
	k.read(r.now, ReadKeys{ID: 5, Keys: keyspan.Set{{Key: []byte("k")}}})
	serve(r, machine.Never)
	if len(r.outcomes) > 0 {
		t.Fatalf("with entries up to 12 in the log, and up to 9 released: %+v", r.outcomes)
	}
	r.last, r.reads.handedOut = 15, 13
	serve(r, machine.Never)
	if want := []Outcome{KeysReady{ID: 5, Index: 12, UpTo: 13, Local: true}}; !reflect.DeepEqual(r.outcomes, want) || len(k.reads) > 0 {
		t.Errorf("with entries up to 13 released: %+v, want %+v", r.outcomes, want)
	}
}

// A read of a key is not served from a state that has an unreleased write of the key, nor from one
// that lacks a write that may have been seen.
func TestAReadOfAKeySeesWhatIsReleased(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   uint64 // what a round has found out; 0: it reads under its lease
		entries []string
		want    []Outcome
	}{
		{"of what nothing changes", 0, []string{"x"}, []Outcome{KeysReady{ID: 5, UpTo: 10, Local: true}}},
		{"of what is held, under a lease", 0, []string{"k"}, nil},
		{"of what is held behind the round", 9, []string{"x", "k", "x"}, []Outcome{KeysReady{ID: 5, Index: 9, UpTo: 10}}},
		{"of what is held at the round", 10, []string{"k"}, nil},
	} {
		r := keyReader(9)
		r.raft = newStage(t).members[0].r.raft
		k := &r.reads.keys
		for i, key := range c.entries {
			k.appended(entryOfPuts(t, 2, uint64(10+i), key))
		}
		r.reads.committed = uint64(9 + len(c.entries))
		k.read(r.now, ReadKeys{ID: 5, Keys: keyspan.Set{{Key: []byte("k")}}})
		until := machine.Never
		if c.asked > 0 {
			k.reads[0].confirmed(c.asked)
			until = 0
		}
		serve(r, until)
		if c.want == nil {
			if len(r.outcomes) > 0 {
				t.Errorf("a read %s: %+v, want it to wait", c.name, r.outcomes)
			}
			continue
		}
		// An entry that was found to touch the key needs its index at most.
		if got, ok := r.outcomes[0].(KeysReady); !ok || got.UpTo != c.want[0].(KeysReady).UpTo || got.Index > c.want[0].(KeysReady).UpTo || got.Local != (c.asked == 0) {
			t.Errorf("a read %s: %+v, want %+v", c.name, r.outcomes, c.want)
		}
	}
}

// A read waits only for entries that touch its keys and may have been seen. It waits neither for later
// entries, nor for an entry that has replaced such a one.
func TestAReadOfAKeyWaitsForNothingElse(t *testing.T) {
	begin := func(keys ...string) (*Replica, *keyOrder) {
		r := keyReader(9)
		r.raft = newStage(t).members[0].r.raft
		k := &r.reads.keys
		for i, key := range keys {
			k.appended(entryOfPuts(t, 2, uint64(10+i), key))
		}
		k.read(r.now, ReadKeys{ID: 5, Keys: keyspan.Set{{Key: []byte("k")}}})
		k.reads[0].confirmed(12)
		if serve(r, 0); len(r.outcomes) > 0 {
			t.Fatalf("served before the index is committed here: %+v", r.outcomes)
		}
		return r, k
	}
	served := func(r *Replica, upTo uint64) {
		t.Helper()
		serve(r, 0)
		if len(r.outcomes) != 1 || r.outcomes[0].(KeysReady).UpTo != upTo {
			t.Errorf("%+v, want the read served up to %d", r.outcomes, upTo)
		}
	}

	r, _ := begin("x", "x", "x", "k")
	r.reads.committed = 13
	served(r, 12)

	r, k := begin("k")
	k.again(9) // the entry was the leader's before, and is replaced
	k.truncated(10, 10)
	k.appended(entryOfPuts(t, 3, 10, "x"))
	r.reads.committed = 10
	k.reads[0].confirmed(10)
	served(r, 10)

	r, k = begin("k")
	r.reads.committed = 12
	if serve(r, 0); len(r.outcomes) > 0 {
		t.Errorf("served past what is held: %+v", r.outcomes)
	}
	k.releaseThrough(12)
	served(r, 12)
}

// A leader that was in key order during its leadership reads up to the end of its log in strict order.
// Other members may have found more of the log to be released than is committed here.
func TestALeaderThatWasInKeyOrderReadsToTheEnd(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms", "cut 2", "cut 3", "put 1 a b"} {
		s.do(command)
	}
	r := s.members[0].r
	commit := r.Status().Commit
	if r.last != commit+1 || r.reads.until(r.moment) <= r.now {
		t.Fatalf("the log ends at %d and is committed up to %d, and the leader has a lease until %v", r.last, commit, r.reads.until(r.moment))
	}
	for far, want := range map[bool]uint64{false: commit, true: r.last} {
		r.reads.far = far
		if r.reads.publish(r.moment, &r.effects, r.raft); r.reads.shown.Index != want {
			t.Errorf("in key order before: %v, it reads from %d on, want %d", far, r.reads.shown.Index, want)
		}
	}
}

// Keys that are read together are read from one state if no entry that touches them is held and this
// member holds all of them under its lease. Otherwise the log puts the read in its place.
func TestReadsOfKeysTogether(t *testing.T) {
	both := keyspan.Set{{Key: []byte("a")}, {Key: []byte("x")}} // member 1 holds only a if the keys are divided
	for _, tt := range []struct {
		name    string
		divided bool
		until   machine.Mono
		key     string
		want    KeysReady
	}{
		{"under a lease", false, machine.Never, "k", KeysReady{UpTo: 10, Local: true, Exact: true}},
		{"without a lease", false, 0, "k", KeysReady{UpTo: 10, Exact: true, ByLog: true}},
		{"of which one is changed", false, machine.Never, "x", KeysReady{Index: 10, UpTo: 10, Exact: true, ByLog: true}},
		{"of which another holds one", true, machine.Never, "k", KeysReady{UpTo: 10, Exact: true, ByLog: true}},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		if tt.divided {
			k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}}
		}
		k.appended(entryOfPuts(t, 2, 10, tt.key))
		r.reads.committed = 10
		k.read(r.now, ReadKeys{ID: 5, Keys: both})
		serve(r, tt.until)
		tt.want.ID = 5
		if !reflect.DeepEqual(r.outcomes, []Outcome{tt.want}) {
			t.Errorf("keys %s: %+v, want %+v", tt.name, r.outcomes, tt.want)
		}
	}
}

// A read of a key needs a state that has the last entry that touches its key, as far as the round has
// found, and no later one.
func TestWhichStateAReadNeeds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []string // from 10 on, all of them committed
		release []uint64
		asked   uint64
		want    KeysReady
	}{
		{"that nothing changed", []string{"x"}, nil, 10, KeysReady{Index: 0, UpTo: 10}},
		{"that the entry of the round changed", []string{"x", "k"}, []uint64{11}, 11, KeysReady{Index: 11, UpTo: 11}},
		{"that an earlier entry changed", []string{"k", "x", "x"}, []uint64{10}, 12, KeysReady{Index: 10, UpTo: 12}},
		{"that a later entry has changed", []string{"x", "k", "x"}, []uint64{11}, 10, KeysReady{Index: 10, UpTo: 12}},
		{"that an entry is to change which is not committed", []string{"k", "x", "x", "k", "k"}, []uint64{10, 13}, 11, KeysReady{Index: 11, UpTo: 12}},
		{"that a later entry is to change", []string{"k", "x", "k"}, []uint64{10}, 11, KeysReady{Index: 11, UpTo: 11}},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		for i, key := range tt.entries {
			k.appended(entryOfPuts(t, 2, uint64(10+i), key))
		}
		for _, i := range tt.release {
			k.release(i)
		}
		r.reads.committed = min(12, uint64(9+len(tt.entries)))
		k.read(r.now, ReadKeys{ID: 5, Keys: key("k")})
		k.reads[0].confirmed(tt.asked)
		serve(r, 0)
		tt.want.ID = 5
		if !reflect.DeepEqual(r.outcomes, []Outcome{tt.want}) {
			t.Errorf("a read of a key %s, by a round up to %d: %+v, want %+v", tt.name, tt.asked, r.outcomes, tt.want)
		}
	}
}

// A read that cannot be served is given up when nobody waits for it any more, whatever it waits for.
func TestReadsAreGivenUp(t *testing.T) {
	for name, wait := range map[string]func(r *Replica, k *keyOrder){
		"a round":            func(*Replica, *keyOrder) {},
		"an entry to commit": func(_ *Replica, k *keyOrder) { k.reads[0].confirmed(12) },
		"an entry that is held": func(r *Replica, k *keyOrder) {
			r.reads.committed = 10
			k.reads[0].confirmed(10)
		},
		"what a snapshot has": func(_ *Replica, k *keyOrder) { k.blind = true },
	} {
		r := keyReader(9)
		k := &r.reads.keys
		k.appended(entryOfPuts(t, 2, 10, "k"))
		began := r.now
		k.read(began, ReadKeys{ID: 5, Keys: key("k")})
		wait(r, k)
		for _, step := range []struct {
			after time.Duration
			left  int
		}{{0, 1}, {r.cfg.patience(), 1}, {r.cfg.patience() + 1, 0}} {
			r.now = began.Add(step.after)
			if serve(r, 0); len(k.reads) != step.left || len(r.outcomes) > 0 {
				t.Errorf("a read that waits for %s: after %v of %v %d reads wait, and %+v is said; want %d and nothing", name, step.after, r.cfg.patience(), len(k.reads), r.outcomes, step.left)
			}
		}
	}
}

// Reads of keys go by the leader's knowledge at a leader beyond doubt only.
func TestWhoReadsAsTheLeader(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *Replica)
		want   bool
	}{
		"a leader with a lease":                     {func(*Replica) {}, true},
		"a leader without a lease":                  {func(r *Replica) { r.reads.wanted = 0 }, false},
		"a leader before an entry of its own":       {func(r *Replica) { r.visibleTerm-- }, false},
		"one that raft has no longer for a leader":  {func(r *Replica) { r.raft = newStage(t).members[0].r.raft }, false},
		"a leader of which another is known by now": {func(r *Replica) { r.leader = 2 }, false},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[0].r
		c.change(r)
		got := r.reads.reading(r.moment, r.raft)
		if got.leads != c.want || got.self != 1 || got.now != r.now || got.until != r.reads.until(r.moment) || got.patience != r.cfg.patience() || got.last != r.last || got.unsettled || got.positions != r.reads.positions {
			t.Errorf("%s reads by %+v, want as the leader: %v", name, got, c.want)
		}
		r.reads.settings = []uint64{r.last}
		if got := r.reads.reading(r.moment, r.raft); !got.unsettled {
			t.Errorf("%s has a division that is not applied, and reads by %+v", name, got)
		}
	}
}

// A read of one key may name it more than once. A range is more than one key.
func TestWhatIsReadTogether(t *testing.T) {
	for _, tt := range []struct {
		keys keyspan.Set
		want bool
	}{
		{nil, false},
		{key("a"), false},
		{append(key("a"), key("a")...), false},
		{append(key("a"), key("b")...), true},
		{append(append(key("a"), key("a")...), key("b")...), true},
		{keyspan.Set{{Key: []byte("a"), End: []byte("b")}}, true},
		{append(key("a"), keyspan.Span{Key: []byte("a"), End: []byte{0}}), true},
	} {
		if got := together(tt.keys); got != tt.want {
			t.Errorf("a read of %v is of keys together: %v, want %v", tt.keys, got, tt.want)
		}
	}
}

// A leader beyond doubt reads a key that it holds past an entry that it keeps, as the key was before that entry, and
// as far as the log is committed. It reads past no other entry, and nobody else does.
func TestReadsPastWhatIsKept(t *testing.T) {
	divided := []conf{{9, readSetting{quorumlease.Static, division(t)}}}
	for _, tt := range []struct {
		name   string
		key    string
		change func(k *keyOrder, at *reading)
		want   *KeysReady // nil: it waits
	}{
		{"a key that the leader keeps an entry of", "k", func(*keyOrder, *reading) {}, &KeysReady{Index: 11, UpTo: 11, Local: true}},
		{"a key of which less is committed", "k", func(_ *keyOrder, at *reading) { at.committed = 10 }, &KeysReady{Index: 10, UpTo: 10, Local: true}},
		{"at a leader in doubt", "k", func(_ *keyOrder, at *reading) { at.leads = false }, nil},
		{"at a leader that keeps no such entry", "k", func(k *keyOrder, _ *reading) { k.own = []uint64{11, 13} }, nil},
		{"a key that another holds", "z", func(k *keyOrder, _ *reading) { k.confs = divided }, nil},
		{"a key that the leader holds, too", "k", func(k *keyOrder, _ *reading) { k.confs = divided }, &KeysReady{Index: 11, UpTo: 11, Local: true}},
		{"while a snapshot hides what is released", "k", func(k *keyOrder, _ *reading) { k.blind = true }, nil},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		for i, name := range []string{"x", "y", tt.key, "x"} {
			k.appended(entryOfPuts(t, 2, uint64(10+i), name))
		}
		k.own = []uint64{12}
		k.read(r.now, ReadKeys{ID: 5, Keys: key(tt.key)})
		at := reading{positions: positions{committed: 13}, self: 1, now: r.now, until: machine.Never, patience: time.Second, leads: true}
		tt.change(k, &at)
		got := k.mayRead(at)
		if tt.want == nil {
			if len(got) > 0 || len(k.reads) != 1 {
				t.Errorf("a read %s: %+v, want it to wait", tt.name, got)
			}
			continue
		}
		tt.want.ID = 5
		if !reflect.DeepEqual(got, []KeysReady{*tt.want}) || len(k.reads) > 0 {
			t.Errorf("a read of %s: %+v, want %+v", tt.name, got, *tt.want)
		}
	}
}

// A member that reads a key under its lease waits for what its log has of that key, and for nothing else, committed
// or not. At the end of the lease it asks, and nothing is asked twice, or of what is known.
func TestReadsUnderALease(t *testing.T) {
	for _, tt := range []struct {
		name      string
		entries   []string // from 10 on
		release   []uint64
		committed uint64
		until     machine.Mono // of 5
		keys      keyspan.Set
		want      *KeysReady // nil: it waits
		asks      bool
	}{
		{"that the log does not touch", []string{"x"}, nil, 9, 6, key("k"), &KeysReady{UpTo: 9, Local: true}, false},
		{"that a released entry has changed", []string{"x", "k", "x"}, []uint64{11}, 12, 6, key("k"), &KeysReady{Index: 11, UpTo: 12, Local: true}, false},
		{"that is released and not known to be committed", []string{"x", "k"}, []uint64{11}, 10, 6, key("k"), &KeysReady{Index: 11, UpTo: 10, Local: true}, false},
		{"that an entry is to change", []string{"k"}, nil, 10, 6, key("k"), nil, false},
		{"at the end of the lease", []string{"x"}, nil, 10, 5, key("k"), nil, true},
		{"of which another is read with it at the end of the lease", []string{"x"}, nil, 10, 5, append(key("k"), key("m")...), &KeysReady{UpTo: 10, Exact: true, ByLog: true}, false},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		for i, name := range tt.entries {
			k.appended(entryOfPuts(t, 2, uint64(10+i), name))
		}
		for _, i := range tt.release {
			k.release(i)
		}
		k.read(5, ReadKeys{ID: 5, Keys: tt.keys})
		got := k.mayRead(reading{positions: positions{committed: tt.committed}, self: 1, now: 5, until: tt.until, patience: time.Second})
		var want []KeysReady
		if tt.want != nil {
			tt.want.ID = 5
			want = []KeysReady{*tt.want}
		}
		if !slices.Equal(got, want) {
			t.Errorf("a read of a key %s: %+v, want %+v", tt.name, got, want)
		}
		if asks := k.unasked() == 1; asks != tt.asks || len(k.questions()) != k.unasked() {
			t.Errorf("a read of a key %s asks the leader: %v, want %v", tt.name, asks, tt.asks)
		}
	}
	k := &keyOrder{revealed: revealed{reads: []*keyRead{{known: true}, {asked: true}, {known: true, asked: true}, {}, {together: true}}}}
	if got := k.questions(); k.unasked() != 2 || len(got) != 2 || got[0] != k.reads[3] || got[1] != k.reads[4] {
		t.Errorf("of reads of keys of which one is known, one is asked for and one both, %d have to be asked for, and %d are, want 2", k.unasked(), len(got))
	}
}

// Behind a snapshot of which a part is not released, no read of a key is answered, whatever a round has found.
func TestNoReadBehindAHiddenSnapshot(t *testing.T) {
	k := &keyReader(9).reads.keys
	k.start(20, 15, readSetting{policy: quorumlease.AllByKey}, nil)
	k.read(5, ReadKeys{ID: 5, Keys: key("k")})
	k.read(5, ReadKeys{ID: 6, Keys: append(key("k"), key("m")...)})
	k.reads[0].confirmed(12)
	at := reading{positions: positions{committed: 20}, self: 1, now: 5, until: machine.Never, patience: time.Second, leads: true}
	if got := k.mayRead(at); len(got) > 0 || len(k.reads) != 2 {
		t.Errorf("of a snapshot of 20 that is released up to 15, reads are answered %+v", got)
	}
	k.releaseThrough(20)
	k.stillBlind()
	if got := k.mayRead(at); len(got) != 2 || len(k.reads) != 0 {
		t.Errorf("of a snapshot that is released, reads are answered %+v, want two", got)
	}
}

// A read of one key is not served under the lease of a member that does not hold the key, and is if it does.
func TestAReadOfAKeyThatIsNotHeld(t *testing.T) {
	for _, tt := range []struct {
		key   string
		local bool
	}{{"a", true}, {"x", false}} {
		r := keyReader(9)
		r.raft = newStage(t).members[0].r.raft
		k := &r.reads.keys
		k.confs[0].setting.cells = division(t) // this member holds no key from m on
		k.read(r.now, ReadKeys{ID: 5, Keys: keyspan.Set{{Key: []byte(tt.key)}}})
		if serve(r, machine.Never); (len(r.outcomes) == 1) != tt.local || len(k.reads) > 0 && k.reads[0].known {
			t.Errorf("a read of %s is served as %+v, want that it is: %v", tt.key, r.outcomes, tt.local)
		}
	}
}
