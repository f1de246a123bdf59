package disklease

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenure-lease/tenure/internal/machine"
)

func drawID(t *rapid.T, name string) (id machine.ID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
	return id
}

func TestRecordsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := record{delay: time.Duration(rapid.Int64Range(5, 1<<40).Draw(t, "delay"))}
		for range rapid.IntRange(0, 4).Draw(t, "entries") {
			want.entries = append(want.entries, entry{
				id: drawID(t, "id"), stamp: rapid.Uint64().Draw(t, "stamp"), slots: rapid.Uint64().Draw(t, "slots"),
				token:     rapid.Uint64Min(1).Draw(t, "token"),
				lockDelay: time.Duration(rapid.Int64Min(0).Draw(t, "lock delay")), holder: rapid.String().Draw(t, "holder"),
			})
		}
		got, err := decodeRecord(machine.Value{Version: machine.Version{Seq: 7}, Data: want.encode(5)}, 5)
		if err != nil || got.delay != want.delay || !slices.Equal(got.entries, want.entries) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestNotesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SliceOfN(rapid.Uint64(), 6, 6).Draw(t, "fields")
		want := note{n[0], n[1], n[2], n[3], n[4], n[5]}
		if got, err := decodeNote(want.encode()); err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// The record that brings an entry cannot know its version, which is the token.
func TestTokenOfANewEntry(t *testing.T) {
	data := record{delay: 1, entries: []entry{{stamp: 1, slots: 1}, {stamp: 2, slots: 1, token: 3}}}.encode(1)
	got, err := decodeRecord(machine.Value{Version: machine.Version{Seq: 9}, Data: data}, 1)
	if err != nil || got.entries[0].token != 9 || got.entries[1].token != 3 {
		t.Errorf("got %+v, %v, want tokens 9 and 3", got, err)
	}
}

func TestWitnessesSurvive(t *testing.T) {
	w := witness{entries: map[stamp]evidence{}, wishes: map[machine.ID]evidence{{2}: {7, -5, -5, true}}, waiting: []machine.ID{{2}}}
	e := entry{id: machine.ID{1}, stamp: 3}
	w.entries[e.key()] = evidence{11, 1 << 60, 1 << 60, true}
	got := decodeWitness(w.encode([]entry{e}))
	if got.entries[e.key()] != w.entries[e.key()] || got.wishes[machine.ID{2}] != w.wishes[machine.ID{2}] {
		t.Errorf("got %+v, want %+v", got, w)
	}
	if got := decodeWitness([]byte("nonsense")); len(got.entries) != 0 {
		t.Errorf("nonsense became %+v", got)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(record{delay: 1, entries: []entry{{stamp: 1, slots: 1, holder: "h"}}}.encode(1))
	f.Add(note{1, 2, 3, 4, 5, 6}.encode())
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, data []byte) {
		v := machine.Value{Version: machine.Version{Seq: 1}, Data: data, Notes: []machine.Noted{{Data: data}}}
		rec, err := decodeRecord(v, 1)
		if err != nil && !errors.Is(err, ErrRecord) {
			t.Errorf("error %v, want one that wraps ErrRecord", err)
		}
		if err == nil && rec.delay <= 0 {
			t.Errorf("a record without δ was taken: %+v", rec)
		}
		_, _ = Look(v)
		_ = Obsolete(v, machine.ID{})
		_ = decodeWitness(data)
	})
}

func TestBadConfigs(t *testing.T) {
	good := Config{Term: time.Second, Delay: time.Millisecond}
	for want, change := range map[string]func(*Config){
		"are not valid together": func(c *Config) { c.Term = 0 },
		"drift of 600000 ppm":    func(c *Config) { c.Drift = 600_000 },
		"make it at least 1.2s":  func(c *Config) { c.Delay = 100 * time.Millisecond },
		"a holder of 513 bytes":  func(c *Config) { c.Holder = strings.Repeat("x", 513) },
		"-1 slots":               func(c *Config) { c.Slots = -1 },
		"a lock delay of -1ns":   func(c *Config) { c.LockDelay = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to say %q", c, err, want)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
}
