package register

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestTheGreaterVersionStays: of two Puts the greater version is shown, whichever comes first. Of
// equal Seqs the greater writer's is.
func TestTheGreaterVersionStays(t *testing.T) {
	version := func(seq uint64, writer byte) machine.Version {
		return machine.Version{Seq: seq, Writer: machine.ID{writer}}
	}
	less, greater := version(5, 1), version(5, 2)
	for _, versions := range [][]machine.Version{{less, greater}, {greater, less}, {version(4, 9), greater}, {greater, version(4, 9)}} {
		s := NewMemory(header(1, 0)).Open()
		for _, v := range versions {
			s.Do([]Op{{Name: "x", Writer: v.Writer, Op: quorumregister.Put{Version: v, Data: v.Writer[:1]}}})
		}
		got := s.Do([]Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
		if got.Version != greater || got.Data[0] != 2 || got.Floor != 5 {
			t.Errorf("after %v: %v with %v, floor %d; want %v", versions, got.Version, got.Data, got.Floor, greater)
		}
	}
}

// TestTheFloorIsOfAllNames: it is the greatest Seq that any name's version had, whichever name was written last.
func TestTheFloorIsOfAllNames(t *testing.T) {
	s := NewMemory(header(1, 0)).Open()
	for i, put := range []struct {
		name  string
		seq   uint64
		floor uint64
	}{{"a", 5, 5}, {"b", 3, 5}, {"b", 4, 5}, {"c", 7, 7}, {"a", 6, 7}} {
		s.Do([]Op{{Name: put.name, Op: quorumregister.Put{Version: machine.Version{Seq: put.seq, Writer: machine.ID{1}}}}})
		for _, name := range []string{"a", "never written"} {
			if got := s.Do([]Op{{Name: name, Op: quorumregister.Query{}}})[0].Value.(quorumregister.State); got.Floor != put.floor {
				t.Errorf("put %d, of %q with Seq %d: the floor that %q shows is %d, want %d", i+1, put.name, put.seq, name, got.Floor, put.floor)
			}
		}
	}
}

// TestNothingIsWrittenTwice: data stays when other data comes under its version, and a note when
// another comes under its number.
func TestNothingIsWrittenTwice(t *testing.T) {
	s := NewMemory(header(1, 0)).Open()
	v := machine.Version{Seq: 5, Writer: machine.ID{1}}
	for _, data := range []string{"first", "again"} {
		s.Do([]Op{
			{Name: "x", Writer: v.Writer, Op: quorumregister.Put{Version: v, Data: []byte(data)}},
			{Name: "x", Writer: v.Writer, Op: quorumregister.PutNote{Writer: v.Writer, Seq: 2, Data: []byte(data)}},
		})
	}
	got := s.Do([]Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	if string(got.Data) != "first" || len(got.Notes) != 1 || string(got.Notes[0].Data) != "first" {
		t.Errorf("%q with the notes %v, want what came first", got.Data, got.Notes)
	}
}

// TestANoteIsNotOutdoneByAnEarlierOne, and is its writer's alone.
func TestANoteIsNotOutdoneByAnEarlierOne(t *testing.T) {
	s := NewMemory(header(1, 0)).Open()
	for _, n := range []quorumregister.PutNote{
		{Writer: machine.ID{1}, Seq: 2, Data: []byte("late")}, {Writer: machine.ID{1}, Seq: 1, Data: []byte("early")},
		{Writer: machine.ID{2}, Seq: 1, Data: []byte("another's")},
	} {
		s.Do([]Op{{Name: "x", Writer: n.Writer, Op: n}})
	}
	got := s.Do([]Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	notes := map[machine.ID]string{}
	for _, n := range got.Notes {
		notes[n.Writer] = string(n.Data)
	}
	if len(notes) != 2 || notes[machine.ID{1}] != "late" || notes[machine.ID{2}] != "another's" {
		t.Errorf("notes %v, want the late one and another's", notes)
	}
}

// TestMemoryKeepsItsOwn: values stay as they were put, even if the caller changes its
// bytes, and notes go back with a backup.
func TestMemoryKeepsItsOwn(t *testing.T) {
	m := NewMemory(header(1, 0))
	s := m.Open()
	me, data, noted := machine.ID{1}, []byte("data"), []byte("note")
	note := func(seq uint64, data []byte) {
		s.Do([]Op{{Name: "x", Op: quorumregister.PutNote{Writer: me, Seq: seq, Data: data}}})
	}
	shows := func(name string) quorumregister.State {
		return s.Do([]Op{{Name: name, Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	}
	s.Do([]Op{{Name: "x", Op: quorumregister.Put{Version: machine.Version{Seq: 7}, Data: data}}})
	note(1, noted)
	copy(data, "lost")
	copy(noted, "lost")
	if got := shows("x"); string(got.Data) != "data" || len(got.Notes) != 1 || string(got.Notes[0].Data) != "note" {
		t.Errorf("%+v, want what was put", got)
	}
	if got := shows("y"); got.Floor != 7 || got.Version.Seq != 0 {
		t.Errorf("another name shows %+v, want the floor of all", got)
	}
	restore := m.Backup()
	note(2, []byte("later"))
	restore()
	if got := shows("x"); len(got.Notes) != 1 || string(got.Notes[0].Data) != "note" {
		t.Errorf("restored, it shows %+v, want the note of the backup", got)
	}
}

// TestMemoryListsInOrder, as every store does.
func TestMemoryListsInOrder(t *testing.T) {
	s := NewMemory(header(1, 0)).Open()
	for i := range 20 {
		s.Do([]Op{{Name: string(rune('t' - i)), Op: quorumregister.Put{Version: machine.Version{Seq: 1}}}})
	}
	if names, err := s.Names(); err != nil || len(names) != 20 || !slices.IsSorted(names) {
		t.Errorf("%q, %v, want 20 in order", names, err)
	}
}
