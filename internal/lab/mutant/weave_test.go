package mutant

import (
	"os"
	"strings"
	"testing"
)

// TestWeave: mutants of functions of all shapes are noticed in one program, each by its own test and
// no other, and those that change more than bodies are left out.
func TestWeave(t *testing.T) {
	t.Chdir("testdata/woven")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	const out, lives = "is not in it", "this mutant lives"
	tries := []struct {
		test, before, after, want string
	}{
		{"TestAdd", "s.total += n", "s.total = n", "got 2, want 3"},
		{"TestAdd", "s.total += n", "s.total -= n", "got -1, want 3"},
		{"TestAdd", "s.total++", "s.total--", lives},
		{"TestUnit", "string) int { return 1 }", "string) int { return 2 }", "got 2, want 1"},
		{"TestSecond", "return b }", "return -b }", "got -5, want 5"},
		{"TestCopied", "s.total++;", "", "got 1, want 2"},
		{"TestLargest/of_ints", "max(first, x)", "min(first, x)", "got 1, want 5"},
		{"TestLargest/of_strings", "max(first, x)", "min(x, first)", "got a, want c"},
		{"TestHalf", "half, err = n/4, nil", "half, err = n/8, nil", "got 2, want 4"},
		{"TestHalf", "half, err = n/4, nil", "half, err = n/4, errors.New(\"even\")", "got even, want <nil>"},
		{"TestCount", "continue rows", "break rows", "got 1, want 3"},
		{"TestCount", "continue rows", "n--; continue rows", "got 2, want 3"},
		{"TestLimited", "limit = 7", "limit = 8", out},
		{"TestLimited", "Limited(n int) int { return min(n, limit) }", "Limited(m int) int { return m }", out},
		{"TestBegan", "began = 3", "began = 4", out},
		{"TestSafe", "if recover() != nil {", "if recover() == nil {", out},
		{"TestFails", "return n\n", "return -n\n", out}, // for its test fails without it
	}
	var list []mutant
	for i, tt := range tries {
		list = append(list, mutant{dir: root, name: string(rune('a' + i)), rule: tt.after, test: tt.test, edits: []Edit{{"woven.go", tt.before, tt.after}}})
	}
	s, err := weave(t.Context(), root, t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		want := tries[m.name[0]-'a'].want
		said, in, err := s.caught(t.Context(), m)
		switch {
		case in == (want == out):
			t.Errorf("%s, which makes it %q: it can be woven and its test be used: %v", m.test, m.rule, in)
		case want == lives && (err == nil || !strings.Contains(err.Error(), lives)):
			t.Errorf("%s, which makes it %q: %s, %v; want that it lives", m.test, m.rule, said, err)
		case in && want != lives && (err != nil || !strings.Contains(said, want)):
			t.Errorf("%s, which makes it %q: %s, %v; want %q", m.test, m.rule, said, err, want)
		}
	}
}
