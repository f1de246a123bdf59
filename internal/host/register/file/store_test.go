package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func TestWhatOneHandleWritesAnotherReads(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	wantContents(t, s, "x", "0 ")
	do(t, s, put("x", 1, 1, "one"), note("x", 1, 1, "mine"), put("y", 7, 1, "seven"))
	for _, r := range []*Store{s, other} {
		wantContents(t, r, "x", "1 one 1=mine")
		wantContents(t, r, "y", "7 seven")
		wantContents(t, r, "z", "0 ")
		if got := state(t, r, "z").Floor; got != 7 {
			t.Errorf("floor %d, want 7: the greatest of all registers", got)
		}
	}
	do(t, other, put("x", 2, 2, "two"), note("x", 1, 2, "theirs"))
	wantContents(t, s, "x", "2 two 1=mine 2=theirs")
	if got := s.Header(); got != testHeader {
		t.Errorf("header %+v, want %+v", got, testHeader)
	}
}

func TestTheGreaterVersionWins(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	do(t, s, put("x", 5, 1, "five"), note("x", 5, 1, "new"))
	do(t, s, put("x", 4, 1, "four"), note("x", 4, 1, "old"))
	do(t, other, put("x", 5, 0, "a lesser writer"))
	wantContents(t, s, "x", "5 five 1=new")
	do(t, other, put("x", 5, 2, "a greater writer"))
	wantContents(t, s, "x", "5 a greater writer 1=new")
	// A write-back of another's version goes into the own slot.
	do(t, s, register.Op{Name: "x", Writer: writer(3), Op: quorumregister.Put{Version: version(6, 9), Data: []byte("another's")}})
	wantContents(t, other, "x", "6 another's 1=new")
}

func TestWhatWasWrittenOutlivesTheHandle(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "kept"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := s.Do([]register.Op{query("x")})[0]; r.Err == nil {
		t.Error("a closed store answers")
	}
	wantContents(t, b.open(), "x", "3 kept")
}

func TestBadOperations(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	for _, op := range []register.Op{
		put("", 1, 1, "no name"),
		put(strings.Repeat("n", register.MaxName+1), 1, 1, "too long a name"),
		put("x", 1, 1, strings.Repeat("d", register.MaxData+1)),
		note("x", 1, 1, strings.Repeat("d", register.MaxNote+1)),
		{Name: "x", Op: "what?"},
	} {
		if r := s.Do([]register.Op{op}); r[0].Err == nil {
			t.Errorf("%.60v succeeded", op)
		}
	}
	if got := b.handles(); len(got) != 0 {
		t.Errorf("operations that are refused made files: %v", got)
	}
	// The largest of everything fits.
	name, data, n := strings.Repeat("n", register.MaxName), strings.Repeat("d", register.MaxData), strings.Repeat("o", register.MaxNote)
	do(t, s, put(name, 1, 1, data), note(name, 1, 1, n))
	st := state(t, b.open(), name)
	if string(st.Data) != data || string(st.Notes[0].Data) != n {
		t.Error("the largest data or note came back changed")
	}
}

func TestAnOnlookerWritesNothing(t *testing.T) {
	b := newBench(t, InitOptions{})
	opts := b.options()
	opts.ReadOnly = true
	s, err := Open(b.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, put("x", 1, 1, "no"), errReadOnly)
	wantContents(t, s, "x", "0 ")
	do(t, b.open(), put("x", 1, 1, "yes"))
	wantContents(t, s, "x", "1 yes")
	s.Close()
	if got := b.handles(); len(got) != 1 {
		t.Errorf("files %v, want the other's only", got)
	}
}

// A handle that needs more slots than it has moves to a larger file.
func TestManyRegisters(t *testing.T) {
	b := newBench(t, InitOptions{SingleHost: true})
	s, other := b.open(), b.open()
	want := []string{}
	lent := []byte("lent for the call only")
	op := put("lent", 1, 1, "")
	op.Op = quorumregister.Put{Version: version(1, 1), Data: lent}
	do(t, s, op)
	copy(lent, "changed by its owner")
	for n := range 40 {
		var ops []register.Op
		for i := range n {
			ops = append(ops, put(fmt.Sprintf("r%02d", i), uint64(n), 1, fmt.Sprint("round ", n)))
		}
		do(t, s, ops...)
		want = append(want, fmt.Sprintf("r%02d", n))
	}
	want = append(want[:39:39], "lent")
	for _, name := range want[:39] {
		wantContents(t, other, name, "39 round 39")
	}
	wantContents(t, other, "lent", "1 lent for the call only")
	got, err := other.Names()
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("names %v, %v, want %v", got, err, want)
	}
	if got := b.handles(); len(got) != 1 {
		t.Errorf("files %v, want one", got)
	}
}

// No record of the old name is lost before it may be, and the generation of the slot goes on.
func TestSlotsAreUsedAnew(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	seq := uint64(0)
	for round := range 5 {
		for i := range leastSlots {
			seq++
			name := fmt.Sprintf("job-%d-%d", round, i)
			do(t, s, put(name, seq, 1, "done"), note(name, 1, 1, "released"))
			do(t, s, leave(name, 1))
			b.obsolete[name] = true
		}
		b.clock.pass(testWait)
		do(t, s, query("x")) // sees that they are not needed
		b.clock.pass(testWait)
		do(t, s, query("x")) // and frees them
	}
	if got := s.home.slots; got != leastSlots {
		t.Errorf("%d slots, want %d", got, leastSlots)
	}
	do(t, s, put("last", seq, 1, "last")) // the sixth use of a slot, each of two writes or more
	if got := s.slots[key{writer(1), "last"}].rec.gen; got < 10 {
		t.Errorf("generation %d: it began anew", got)
	}
	st := state(t, b.open(), "job-0-0")
	if st.Version.Seq != 0 || st.Floor != seq {
		t.Errorf("an obsolete register shows version %v and floor %d, want none and %d", st.Version, st.Floor, seq)
	}
}

func TestANeededSlotIsKept(t *testing.T) {
	tests := []struct {
		name     string
		prepare  func(b *bench, s, other *Store)
		reusable bool
	}{
		{"the writer has not left", func(b *bench, s, _ *Store) { b.obsolete["x"] = true }, false},
		{"nobody says that it is obsolete", func(b *bench, s, _ *Store) { do(b.t, s, leave("x", 1)) }, false},
		{"obsolete", func(b *bench, s, _ *Store) { do(b.t, s, leave("x", 1)); b.obsolete["x"] = true }, true},
		{"a greater version elsewhere", func(b *bench, s, o *Store) {
			do(b.t, s, leave("x", 1))
			do(b.t, o, put("x", 9, 2, "greater"))
		}, true},
		{"a lesser version elsewhere, which would show again", func(b *bench, s, o *Store) {
			do(b.t, s, leave("x", 1))
			b.obsolete["x"] = true
			do(b.t, o, put("x", 0, 2, "lesser"))
		}, false},
		{"a greater version elsewhere, and a note that is needed", func(b *bench, s, o *Store) {
			do(b.t, s, note("x", 1, 1, "needed"), leave("x", 1))
			do(b.t, o, put("x", 9, 2, "greater"))
		}, false},
		{"a greater version elsewhere, and a note that is not needed", func(b *bench, s, o *Store) {
			do(b.t, s, note("x", 1, 1, "needless"), leave("x", 1))
			do(b.t, o, put("x", 9, 2, "greater"))
			b.obsolete["x/1"] = true
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, InitOptions{})
			b.t = t
			s, other := b.open(), b.open()
			do(t, s, put("x", 1, 1, "data"))
			tt.prepare(b, s, other)
			free := len(s.home.free)
			b.clock.pass(testWait)
			do(t, s, query("x"))
			b.clock.pass(testWait - 1)
			do(t, s, query("x"))
			if len(s.home.free) != free {
				t.Error("a slot was freed before its time")
			}
			b.clock.pass(testWait)
			do(t, s, query("x"))
			if got := len(s.home.free) == free+1; got != tt.reusable {
				t.Errorf("freed: %v, want %v", got, tt.reusable)
			}
		})
	}
}

// A writer that left and came back has the whole wait again when it leaves again.
func TestLeavingTwice(t *testing.T) {
	b := newBench(t, InitOptions{})
	b.obsolete["x"] = true
	s := b.open()
	do(t, s, put("x", 1, 1, "one"), leave("x", 1))
	b.clock.pass(testWait)
	do(t, s, query("x"))
	do(t, s, put("x", 2, 1, "two"), leave("x", 1))
	free := len(s.home.free)
	b.clock.pass(testWait)
	do(t, s, query("x"))
	if len(s.home.free) != free {
		t.Error("the slot was freed at once")
	}
	b.clock.pass(testWait)
	do(t, s, query("x"))
	if len(s.home.free) != free+1 {
		t.Error("the slot was not freed")
	}
}

// Of two handles that hold the same version, each could rely on the other's. One stays.
func TestTheSameVersionTwice(t *testing.T) {
	b := newBench(t, InitOptions{})
	stores := []*Store{b.open(), b.open(), b.open()}
	for i, s := range stores {
		op := put("x", 5, 9, "five") // written back by each
		op.Writer = writer(byte(i))
		do(t, s, op, leave("x", byte(i)))
	}
	for range 2 {
		b.clock.pass(testWait)
		for _, s := range stores {
			do(t, s, query("x")) // all see that their own is not needed, before any of them uses it anew
		}
	}
	for i, s := range stores {
		for j := range leastSlots {
			do(t, s, put(fmt.Sprint("other ", i, j), 6, byte(i), "data"))
		}
	}
	wantContents(t, b.open(), "x", "5 five")
}

func TestCloseRemovesWhatNobodyNeeds(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	do(t, s, put("x", 1, 1, "one"), leave("x", 1))
	do(t, other, put("x", 2, 2, "two"))
	b.clock.pass(testWait)
	s.Close()
	if got := b.handles(); !slices.Equal(got, []string{other.home.place}) {
		t.Errorf("files %v, want the other's", got)
	}
}

// Each record has the greatest token of the store that its handle has seen. So that is known even
// if the other handles' records are lost.
func TestEachRecordIsAWitness(t *testing.T) {
	for _, before := range []int{0, 1} { // the first Put makes the file, and the second writes to it
		b := newBench(t, InitOptions{})
		s, other := b.open(), b.open()
		for range before {
			do(t, s, put("y", 1, 1, "one"))
		}
		do(t, other, put("x", 7, 2, "seven"))
		wantContents(t, s, "x", "7 seven")
		do(t, s, put("y", 2, 1, "two"))
		if err := os.Remove(filepath.Join(b.dir, handlesDir, other.home.place)); err != nil {
			t.Fatal(err)
		}
		if got := state(t, b.open(), "z").Floor; got != 7 {
			t.Errorf("after %d writes before: a newcomer sees the floor %d, want 7, which was in use", before, got)
		}
	}
}

// A caller may change its bytes afterwards: the stored data stay, and may be written again
// later.
func TestDataAreCopied(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, reader := b.open(), b.open()
	data, text := []byte("one"), []byte("mine")
	do(t, s,
		register.Op{Name: "x", Writer: writer(1), Op: quorumregister.Put{Version: version(1, 1), Data: data}},
		register.Op{Name: "x", Writer: writer(1), Op: quorumregister.PutNote{Writer: writer(1), Seq: 1, Data: text}})
	clear(data)
	clear(text)
	s.home.doubt = fmt.Errorf("a write failed")
	do(t, s, put("y", 2, 1, "two"))
	wantContents(t, reader, "x", "1 one 1=mine")
}

// Enter makes room, in the file or by a larger one, so that the next Put is two writes.
func TestEnter(t *testing.T) {
	b := newBench(t, InitOptions{})
	f := &faulty{}
	b.files = f
	s := b.open()
	for i := range 2 * leastSlots {
		name := fmt.Sprint("r", i)
		do(t, s, register.Op{Name: name, Writer: writer(1), Op: register.Enter{}})
		wantContents(t, s, name, "0 ")
		steps := 0
		f.fail = func(step, _ string, _ int) (int, error) {
			if step != "stat" { // which changes nothing
				steps++
			}
			return 0, nil
		}
		do(t, s, put(name, 1, 1, "data"))
		if steps != 2 {
			t.Errorf("%s: the first Put took %d steps, want two writes", name, steps)
		}
		wantContents(t, s, name, "1 data")
	}
	if names, err := s.Names(); err != nil || len(names) != 2*leastSlots {
		t.Errorf("names %v, %v", names, err)
	}
}

// Short-lived handles, one after the other, leave neither files nor forget tokens.
func TestHandlesDoNotPileUp(t *testing.T) {
	b := newBench(t, InitOptions{})
	b.obsolete["x"] = true
	for seq := range uint64(10) {
		s := b.open()
		if st := state(t, s, "x"); max(st.Floor, st.Version.Seq) != seq {
			t.Fatalf("the store remembers Seq %d of %d", max(st.Floor, st.Version.Seq), seq)
		}
		do(t, s, put("x", seq+1, byte(seq), "mine"), note("x", 1, byte(seq), "released"), leave("x", byte(seq)))
		s.Close()
		if got := len(b.handles()); got > 2 {
			t.Fatalf("%d files after %d handles", got, seq+1)
		}
	}
}

// Handles that died are removed once they have not changed for the wait, and nobody needs their
// records.
func TestDeadHandles(t *testing.T) {
	b := newBench(t, InitOptions{})
	for w := range byte(3) {
		s := b.open()
		do(t, s, put("x", uint64(w+1), w, "mine"))
		s.home.f.Close() // and is never heard of again
		s.dead = register.ErrGone
	}
	s := b.open()
	do(t, s, query("x"))
	b.clock.pass(testWait - 1)
	do(t, s, query("x"))
	if got := len(b.handles()); got != 3 {
		t.Fatalf("%d files before the wait is over, want 3", got)
	}
	b.clock.pass(testWait)
	do(t, s, query("x")) // condemned
	if got := len(b.handles()); got != 3 {
		t.Errorf("%d files after a single look, want 3: another has to see that nobody needs them", got)
	}
	do(t, s, query("x"))
	if got := len(b.handles()); got != 1 {
		t.Errorf("%d files, want one: the one with the greatest version", got)
	}
	wantContents(t, s, "x", "3 mine")
	b.obsolete["x"] = true
	b.clock.pass(testWait)
	wantContents(t, s, "x", "3 mine")
	if got := len(b.handles()); got != 1 {
		t.Errorf("%d files, want one: nobody else knows how far tokens went", got)
	}
	do(t, s, put("y", 4, 7, "later"))
	b.clock.pass(testWait)
	do(t, s, query("y"))
	do(t, s, query("y"))
	wantContents(t, s, "x", "0 ")
	if got := b.handles(); !slices.Equal(got, []string{s.home.place}) {
		t.Errorf("files %v, want the living handle's", got)
	}
}

func TestDump(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "data"), note("x", 2, 1, "note"))
	flip(t, b, s.home.place, copyAt(leastSlots, 1, 5))
	var got []Handle
	for h, err := range b.open().Dump() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h)
	}
	if len(got) != 1 || got[0].Holder != "a test" || got[0].ID != s.home.id || got[0].Left || got[0].Damage != nil || got[0].Slots != leastSlots {
		t.Fatalf("handles %+v", got)
	}
	if n := len(got[0].Records); n != 2 {
		t.Fatalf("%d records, want one in use and one damaged", n)
	}
	r := got[0].Records[0]
	if r.Name != "x" || r.Version != version(3, 1) || r.Writer != writer(1) || !bytes.Equal(r.Note, []byte("note")) || r.NoteSeq != 2 || r.Damage != nil {
		t.Errorf("record %+v", r)
	}
	if r := got[0].Records[1]; r.Slot != 5 || r.Damage != errOneCopy {
		t.Errorf("record %+v, want slot 5 with a damaged copy", r)
	}
}

// Of two copies that differ, as after a crash between them, the newer is shown to people, and inherited.
func TestTheNewerCopyIsShown(t *testing.T) {
	for older := range 2 {
		b := newBench(t, InitOptions{})
		s := b.open()
		do(t, s, put("x", 1, 1, "one"))
		at := copyAt(leastSlots, older, s.slots[key{writer(1), "x"}].at)
		var was []byte
		change(t, b, s.home.place, at, block, func(p []byte) { was = append(was, p...) })
		do(t, s, put("x", 2, 1, "two"))
		change(t, b, die(s), at, block, func(p []byte) { copy(p, was) })
		reader := b.open()
		for h, err := range reader.Dump() {
			if err != nil || len(h.Records) != 1 || h.Records[0].Version.Seq != 2 || string(h.Records[0].Data) != "two" || h.Records[0].Damage != nil {
				t.Errorf("copy %d is older: %+v, %v are shown, want the newer", older, h.Records, err)
			}
		}
		wantContents(t, reader, "x", "2 two")
	}
}

// A store that was closed is closed, however often, and says so.
func TestAClosedStore(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 1, 1, "one"))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, op := range []register.Op{query("x"), put("x", 2, 1, "two"), leave("x", 1), enter("y", 1)} {
			wantFailure(t, s, op, os.ErrClosed)
		}
	}
	if n := len(b.handles()); n != 1 {
		t.Errorf("%d files, want one with what was written", n)
	}
}

// A thousand may have died at once, when a rack lost its power. A tidying handle asks about
// each file a few times, and not about all again for each that goes.
func TestManyDeadHandlesAreAskedAboutOnce(t *testing.T) {
	const many = 30
	b := newBench(t, InitOptions{SingleHost: true})
	b.obsolete["x"] = true
	for range many {
		do(t, b.open(), note("x", 1, 1, "waiting"))
	}
	s, asked := b.open(), 0
	s.opts.Obsolete = func(string, machine.Value, machine.ID) bool { asked++; return true }
	do(t, s, put("x", 1, 2, "mine"))
	for range 3 {
		b.clock.pass(testWait)
		do(t, s, query("x"))
	}
	if got := b.handles(); len(got) != 1 {
		t.Errorf("%d files are left, want one", len(got))
	}
	if asked > 12*many {
		t.Errorf("to remove the files of %d dead handles it was asked %d times whether they are needed", many, asked)
	}
}

// Obsolete gets the whole value of the record's register.
func TestWhatObsoleteIsAsked(t *testing.T) {
	b := newBench(t, InitOptions{})
	type asked struct {
		Name   string
		V      machine.Value
		Writer machine.ID
	}
	var got []asked
	opts := b.options()
	opts.Obsolete = func(name string, v machine.Value, w machine.ID) bool {
		got = append(got, asked{name, v, w})
		return false
	}
	s, err := Open(b.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	do(t, s, put("x", 3, 1, "three"), note("x", 2, 1, "n1"), note("x", 5, 2, "n2"), put("y", 9, 3, "nine"), leave("x", 1))
	got = nil
	b.clock.pass(testWait / 8)
	do(t, s, query("x"))
	want := asked{"x", machine.Value{
		Version: version(3, 1), Data: []byte("three"), Next: 10, // behind the version of y
		Notes: []machine.Noted{{Writer: writer(1), Data: []byte("n1")}, {Writer: writer(2), Data: []byte("n2")}},
	}, writer(1)}
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("asked about %+v, want %+v", got, want)
	}
}

// A new file that could not be made, at any step, is neither left behind nor left open, and the
// next one is made.
func TestANewFileThatCannotBeMade(t *testing.T) {
	for _, fault := range []string{"create", "write", "sync", "link"} {
		b := newBench(t, InitOptions{})
		f := &faulty{}
		b.files = f
		s := b.open()
		f.fail = func(step, _ string, _ int) (int, error) {
			if step == fault {
				return 0, unix.EIO
			}
			return 0, nil
		}
		for range 3 {
			wantFailure(t, s, put("x", 1, 1, "one"), unix.EIO)
		}
		if got := b.handles(); len(got) != 0 {
			t.Errorf("a %s has failed, and %v are left", fault, got)
		}
		if open := f.left.Load(); open != 0 {
			t.Errorf("a %s has failed, and %d files are left open", fault, open)
		}
		f.fail = nil
		do(t, s, put("x", 2, 1, "two"))
		b.files = nil
		wantContents(t, b.open(), "x", "2 two")
		home := s.home
		home.doubt = errors.New("a write failed")
		do(t, s, put("x", 3, 1, "three"))
		if open := f.left.Load(); open != 1 || s.home == home {
			t.Errorf("it goes on in another file: %v, and has %d open, want that one alone", s.home != home, open)
		}
	}
}
