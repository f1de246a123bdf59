// Package golden keeps the texts that tests compare with in files. `go test PKG -run TEST -rewrite`
// writes them anew; what changed then shows in the diff, and is to be read there.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files, such as the table of mutants")

// Rewrites reports whether golden files are to be written anew.
func Rewrites() bool { return *rewrite }

// Kept returns what a file has. With -rewrite it has the text that the test got.
func Kept(t testing.TB, file, got string) string {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Lines compares the lines of a text with those of a file, and shows the first that differ. A text that ends
// early differs, too.
func Lines(t testing.TB, file, got string) {
	t.Helper()
	is, was := strings.Split(got, "\n"), strings.Split(Kept(t, file, got), "\n")
	if n := alike(is, was); n < max(len(is), len(was)) {
		t.Errorf("line %d is\n%s\nand %s has\n%s", n+1, some(is, n, 1), file, some(was, n, 1))
	}
}

// head begins each part of a text.
const head = "== "

// Parts compares the parts of a text with those of a file, one for one. Each begins with a line of its own,
// "== " and what it is about. Of each part that differs it shows some lines before and behind the first difference.
func Parts(t testing.TB, file string, got []string) {
	t.Helper()
	want := strings.Split(Kept(t, file, strings.Join(got, "\n")), "\n"+head)
	if len(got) != len(want) {
		t.Errorf("%s has %d parts, and there are %d", file, len(want), len(got))
	}
	for i := range min(len(got), len(want)) {
		is := strings.Split(strings.TrimSpace(got[i]), "\n")
		was := strings.Split(head+strings.TrimSpace(strings.TrimPrefix(want[i], head)), "\n")
		if n := alike(is, was); n < max(len(is), len(was)) {
			const around = 8
			before := max(0, n-around)
			t.Errorf("in the transcript of %q there is, behind\n%s\nthis\n%s\nand not\n%s",
				is[0], some(is, before, n-before), some(is, n, around), some(was, n, around))
		}
	}
}

// alike returns how many lines at the beginning of two texts are the same.
func alike(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// some are so many lines from the nth on, if there are so many.
func some(lines []string, n, many int) string {
	if n >= len(lines) && many > 0 {
		return "(nothing)"
	}
	return strings.Join(lines[n:min(len(lines), n+many)], "\n")
}
