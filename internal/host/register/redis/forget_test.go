package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// leaving is a store that may forget the records of the writers in gone, unless the data in the
// register names them and another writer wrote it.
func forgetful(t *testing.T, gone ...machine.ID) *Store {
	t.Helper()
	h, _ := made(t, 0, 1)
	o := h.options()
	o.Obsolete = func(v machine.Value, w machine.ID) bool {
		for _, g := range gone {
			if g == w {
				return v.Version.Writer == w || string(v.Data) != "names the others"
			}
		}
		return false
	}
	return opened(t, o)
}

func TestLeave(t *testing.T) {
	s := forgetful(t, ann, bob)
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"the only writer leaves: nothing remains but the floor", func() {
			do(t, s, put("x", 7, ann, "a"), note("x", 1, ann, "n"), leave("x", ann))
		}, `0 0000 "" floor 7`},
		{"a needed writer stays", func() {
			do(t, s, put("x", 8, eve, "e"), note("x", 1, eve, "n"), leave("x", eve))
		}, `8 0003 "e" 0003=1:n floor 8`},
		{"a note goes, another's data stays", func() {
			do(t, s, note("x", 1, ann, "n"), leave("x", ann))
		}, `8 0003 "e" 0003=1:n floor 8`},
		{"a note that the data needs stays for now", func() {
			do(t, s, put("x", 9, bob, "names the others"), note("x", 2, ann, "m"), leave("x", ann))
		}, `9 0200 "names the others" 0003=1:n ff01=2:m floor 9`},
		{"it goes with the data", func() {
			do(t, s, leave("x", bob))
		}, `0 0000 "" 0003=1:n floor 9`},
		{"in whichever order they come", func() {
			do(t, s, put("x", 10, ann, "names the others"), note("x", 2, bob, "m"), leave("x", bob), leave("x", ann))
		}, `0 0000 "" 0003=1:n floor 10`},
		{"writers go on above the floor", func() {
			do(t, s, put("x", 11, ann, "a"))
		}, `11 ff01 "a" 0003=1:n floor 11`},
		{"a smaller version elsewhere does not lower the floor", func() {
			do(t, s, put("y", 4, ann, "a"), leave("y", ann))
		}, `11 ff01 "a" 0003=1:n floor 11`},
	}
	for _, step := range steps {
		step.do()
		if got := show(t, s, "x"); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	if names, err := s.index(t.Context(), "0", "1"); err != nil || len(names) != 1 || names[0] != "x" {
		t.Errorf("names %q, %v; want x alone", names, err)
	}
	fields, err := s.client.HKeys(t.Context(), s.options.keys("x")[1]).Result()
	if slices.Sort(fields); err != nil || !slices.Equal(fields, []string{string(eve[:]), "data", "left:" + string(eve[:]), "version"}) {
		t.Errorf("the rest of writers that have gone and are not needed: %q, %v", fields, err)
	}
}

// TestLooksForgetNotesOfThoseWhoLeft: a note that had to stay when its writer left goes with a later look, of any client, once
// nobody needs it any more.
func TestLooksForgetNotesOfThoseWhoLeft(t *testing.T) {
	s := forgetful(t, ann)
	do(t, s, put("x", 9, bob, "names the others"), note("x", 2, ann, "m"), leave("x", ann))
	for range 2 {
		if got, want := show(t, s, "x"), `9 0200 "names the others" ff01=2:m floor 9`; got != want {
			t.Errorf("a note that the data needs: %s, want %s", got, want)
		}
	}
	do(t, s, put("x", 10, bob, "names nobody"))
	do(t, s, query("x")) // learns of it
	do(t, s, query("y")) // and brings the call along
	if got, want := show(t, s, "x"), `10 0200 "names nobody" floor 10`; got != want {
		t.Errorf("a note that nobody needs, of a writer that left: %s, want %s", got, want)
	}
	if fields, err := s.client.HKeys(t.Context(), s.options.keys("x")[1]).Result(); err != nil || len(fields) != 2 {
		t.Errorf("the server keeps the fields %q, %v; want the version and the data", fields, err)
	}
}

func TestLeaveForgetsNothingUnasked(t *testing.T) {
	_, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"), note("x", 1, ann, "n"), leave("x", ann))
	if got, want := show(t, s, "x"), `1 ff01 "a" ff01=1:n floor 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNothingIsForgottenUnjudged lets something change between the look and the
// forgetting.
func TestNothingIsForgottenUnjudged(t *testing.T) {
	for what, between := range map[string]struct {
		then func(*Store)
		want string
	}{
		"another version": {func(s *Store) { do(t, s, put("x", 2, eve, "e")) }, `2 0003 "e" ff01=1:n floor 2`},
		"another note":    {func(s *Store) { do(t, s, note("x", 2, ann, "m")) }, `1 ff01 "a" ff01=2:m floor 1`},
		"somebody else's": {func(s *Store) { do(t, s, note("x", 1, eve, "e")) }, `0 0000 "" 0003=1:e floor 1`},
	} {
		t.Run(what, func(t *testing.T) {
			s := forgetful(t, ann)
			do(t, s, put("x", 1, ann, "a"), note("x", 1, ann, "n"))
			calls := []*call{s.call(query("x"))}
			run(t.Context(), s.client, calls)
			reply, err := calls[0].reply()
			if err != nil {
				t.Fatal(err)
			}
			seen, err := decodeShown(reply)
			if err != nil {
				t.Fatal(err)
			}
			c := s.forget("x", seen, []machine.ID{ann}, true)
			between.then(s)
			run(t.Context(), s.client, []*call{c})
			if got := show(t, s, "x"); got != between.want {
				t.Errorf("got %s, want %s", got, between.want)
			}
		})
	}
}

// TestNoneOfSeveralIsForgottenUnjudged: the remains of several writers are judged together,
// so none of it goes if the note of one has changed, whichever it is, or was made anew with
// the same number.
func TestNoneOfSeveralIsForgottenUnjudged(t *testing.T) {
	for what, between := range map[string]struct {
		then func(*Store)
		want string
	}{
		"nothing":   {func(*Store) {}, `0 0000 "" floor 1`},
		"the first": {func(s *Store) { do(t, s, note("x", 2, bob, "m")) }, `1 ff01 "a" 0200=2:m ff01=1:n floor 1`},
		"the last":  {func(s *Store) { do(t, s, note("x", 2, ann, "m")) }, `1 ff01 "a" 0200=1:n ff01=2:m floor 1`},
		"one, made anew": {func(s *Store) {
			s.client.HDel(t.Context(), s.options.keys("x")[1], string(bob[:]))
			do(t, s, note("x", 1, bob, "anew"))
		}, `1 ff01 "a" 0200=1:anew ff01=1:n floor 1`},
		"one, which is gone": {func(s *Store) {
			s.client.HDel(t.Context(), s.options.keys("x")[1], string(ann[:]))
		}, `1 ff01 "a" 0200=1:n floor 1`},
	} {
		s := forgetful(t, ann, bob)
		do(t, s, put("x", 1, ann, "a"), note("x", 1, ann, "n"), note("x", 1, bob, "n"))
		calls := []*call{s.call(query("x"))}
		run(t.Context(), s.client, calls)
		reply, err := calls[0].reply()
		if err != nil {
			t.Fatal(err)
		}
		seen, err := decodeShown(reply)
		if err != nil {
			t.Fatal(err)
		}
		c := s.forget("x", seen, []machine.ID{bob, ann}, true)
		between.then(s)
		run(t.Context(), s.client, []*call{c})
		if got := show(t, s, "x"); got != between.want {
			t.Errorf("%s has changed: there is %s, want %s", what, got, between.want)
		}
	}
}

// TestNamesOfWhatIsForgotten: a name is listed while it has data, is kept for a Restore while it
// has notes, and goes with the last of both.
func TestNamesOfWhatIsForgotten(t *testing.T) {
	s := forgetful(t, ann, bob)
	do(t, s, put("both", 1, ann, "a"), note("both", 1, eve, "stays"), put("data", 1, ann, "a"), note("a note", 1, ann, "n"),
		put("another's", 1, eve, "stays"), note("another's", 1, ann, "n"), note("two notes", 1, ann, "n"), note("two notes", 1, eve, "stays"))
	do(t, s, leave("both", ann), leave("data", ann), leave("a note", ann), leave("another's", ann), leave("two notes", ann))
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"another's"}) {
		t.Errorf("the names with data are %q, %v; want the one whose data is another's", names, err)
	}
	if names, err := s.index(t.Context(), "0", "1"); err != nil || !slices.Equal(names, []string{"another's", "both", "two notes"}) {
		t.Errorf("the names that are kept are %q, %v; want those of which something is left", names, err)
	}
}

// TestNotesOfTheDead lets long times pass on the store's clock.
func TestNotesOfTheDead(t *testing.T) {
	s := forgetful(t, ann, bob)
	now := time.Now()
	s.now = func() time.Time { return now }
	do(t, s, put("x", 1, eve, "e"), note("x", 1, ann, "dead"), note("x", 1, bob, "lives"), note("x", 1, eve, "needed"))
	do(t, s, query("x"))
	now = now.Add(s.age() - 1)
	do(t, s, query("x"))
	do(t, s, query("y")) // forgotten records go with the next operations
	const all = `1 0003 "e" 0003=1:needed 0200=1:lives ff01=1:dead floor 1`
	if got := show(t, s, "x"); got != all {
		t.Errorf("before its time: %s, want %s", got, all)
	}
	do(t, s, note("x", 2, bob, "lives"))
	now = now.Add(1)
	do(t, s, query("x"))
	do(t, s, query("y"))
	if got, want := show(t, s, "x"), `1 0003 "e" 0003=1:needed 0200=2:lives floor 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(s.chores) != 0 {
		t.Errorf("%d calls that forget were done, and go with the next operations again", len(s.chores))
	}
	now = now.Add(4 * s.age())
	do(t, s, query("y"))
	if len(s.samples) != 0 {
		t.Errorf("%d names are still remembered, want none", len(s.samples))
	}
}
