package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// said is a test that notes what it would say.
type said struct {
	testing.TB
	lines []string
}

func (s *said) Helper() {}
func (s *said) Errorf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// replaced has a file's name for FILE.
func replaced(text, file string) string { return strings.ReplaceAll(text, "FILE", file) }

func kept(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kept.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The first line that differs is shown, whichever text ends early, and a text that is the same is silent.
func TestLines(t *testing.T) {
	file := kept(t, "one\ntwo\nthree\n")
	for _, tt := range []struct{ got, want string }{
		{"one\ntwo\nthree\n", ""},
		{"one\nzwei\n", "line 2 is\nzwei\nand FILE has\ntwo"},
		{"one\ntwo", "line 3 is\n(nothing)\nand FILE has\nthree"},
		{"one\ntwo\nthree\nfour", "line 4 is\nfour\nand FILE has\n"},
		{"one\ntwo\nthree\n\nfive", "line 5 is\nfive\nand FILE has\n(nothing)"},
	} {
		s := &said{TB: t}
		Lines(s, file, tt.got)
		want := []string{}
		if tt.want != "" {
			want = []string{replaced(tt.want, file)}
		}
		if !slices.Equal(s.lines, want) {
			t.Errorf("of %q it says %q, want %q", tt.got, s.lines, want)
		}
	}
}

// Each part that differs is shown by itself, and a part too many or too few is told.
func TestParts(t *testing.T) {
	file := kept(t, "== a\n1\n2\n\n== b\n3\n\n== c\n4\n")
	for _, tt := range []struct {
		got, want []string
	}{
		{[]string{"== a\n1\n2\n", "== b\n3\n", "== c\n4\n"}, nil},
		{[]string{"== a\n1\n5\n", "== b\n3\n", "== c\n4\n6\n"}, []string{
			"in the transcript of \"== a\" there is, behind\n== a\n1\nthis\n5\nand not\n2",
			"in the transcript of \"== c\" there is, behind\n== c\n4\nthis\n6\nand not\n(nothing)",
		}},
		{[]string{"== a\n1\n2\n", "== b\n3\n"}, []string{"FILE has 3 parts, and there are 2"}},
		{[]string{"== z\n1\n2\n", "== b\n3\n", "== c\n4\n"}, []string{"in the transcript of \"== z\" there is, behind\n\nthis\n== z\n1\n2\nand not\n== a\n1\n2"}},
	} {
		s := &said{TB: t}
		Parts(s, file, tt.got)
		for i := range tt.want {
			tt.want[i] = replaced(tt.want[i], file)
		}
		if !slices.Equal(s.lines, tt.want) {
			t.Errorf("of %q it says\n%q, want\n%q", tt.got, s.lines, tt.want)
		}
	}
}

// With -rewrite a file has what the test got, and without it stays as it was.
func TestKept(t *testing.T) {
	file, was := kept(t, "old"), *rewrite
	defer func() { *rewrite = was }()
	*rewrite = false
	if got := Kept(t, file, "new"); got != "old" {
		t.Errorf("the file has %q, want what was kept", got)
	}
	*rewrite = true
	if got := Kept(t, file, "new"); got != "new" || !Rewrites() {
		t.Errorf("the file has %q, want what the test got", got)
	}
}
