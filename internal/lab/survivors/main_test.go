package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// packageUnderTest has a test that notices some breaks and not others.
var packageUnderTest = map[string]string{
	"go.mod": "module example.org/limit\n\ngo 1.26\n",
	"limit.go": `package limit

type Limit struct{ n, most int }

func (l *Limit) Add(k int) bool {
	if k < 0 || l.n+k > l.most {
		return false
	}
	l.n += k
	return true
}

func (l *Limit) Empty() {
	l.n = 0
}

func (l *Limit) String() string {
	if l.n > 3 {
		return "much"
	}
	return "little"
}
`,
	"limit_test.go": `package limit

import "testing"

func TestAdd(t *testing.T) {
	l := Limit{most: 3}
	if !l.Add(2) || l.Add(2) {
		t.Error("the limit is not 3")
	}
}
`,
}

func TestJudge(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	b, err := breakPackage(dir, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	const condition = "k < 0 || l.n+k > l.most"
	want := map[string]verdict{
		"never: " + condition:                  failed,
		"always: " + condition:                 failed,
		"only the right side of: " + condition: lived, // nothing below 0 is added
		"only the left side of: " + condition:  failed,
		"or equal: k < 0":                      lived,
		"or equal: l.n+k > l.most":             lived, // nothing is added up to the limit
		"left out: l.n += k":                   failed,
		"left out: l.n = 0":                    unreached,
	}
	judge(t, dir, b, want)
}

// TestBugs: bugs that a person wrote down are judged like breaks.
func TestBugs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir)
	bugs := t.TempDir()
	for name, edit := range map[string][2]string{"noticed": {"l.n += k", "l.n += 0"}, "lives": {"k < 0", "k < -1"}, "out-of-reach": {"l.n = 0", "l.n = 1"}} {
		text := fmt.Sprintf("a rule of %s\n\nlimit.go\n<<<<\n%s\n====\n%s\n>>>>\n", name, edit[0], edit[1])
		if err := os.WriteFile(filepath.Join(bugs, name+".txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := weaveBugs(bugs, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	judge(t, dir, b, map[string]verdict{"a rule of noticed": failed, "a rule of lives": lived, "a rule of out-of-reach": unreached})
	if _, err := weaveBugs(t.TempDir(), regexp.MustCompile("")); err == nil {
		t.Error("an empty directory has bugs")
	}
}

func write(t *testing.T, dir string) {
	for name, text := range packageUnderTest {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// judge wants a verdict of each break's text.
func judge(t *testing.T, dir string, b *broken, want map[string]verdict) {
	t.Helper()
	tr, err := prepare(t.Context(), t.TempDir(), []string{dir}, b, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.breaks) != len(want) {
		t.Errorf("breaks: %v, want %d", b.breaks, len(want))
	}
	for _, x := range b.breaks {
		v, err := tr.judge(t.Context(), x, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[x.what]; !ok || v != w {
			t.Errorf("%s: %q, want %q", x.what, v, w)
		}
	}
}

func TestNothingToBreak(t *testing.T) {
	if _, err := breakPackage(t.TempDir(), regexp.MustCompile("")); err == nil {
		t.Error("an empty directory has breaks")
	}
}

// Insertions at one place stand in the right order.
func TestNested(t *testing.T) {
	src := []byte("package x\n\nfunc f(a, b int) bool {\n\treturn a < b && b < 7\n}\n")
	b := &broken{sources: map[string][]byte{}}
	if err := b.add("x.go", src); err != nil {
		t.Fatal(err)
	}
	want := "package x\n\nfunc f(a, b int) bool {\n\treturn ((chosen(1) || ((a < b || chosen(3) && a == b))) && (chosen(2) || ((b < 7 || chosen(4) && b == 7))))\n}\n"
	if got := string(b.sources["x.go"]); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for _, x := range b.breaks {
		if x.where != "x.go:4" {
			t.Errorf("%s is in %s, want line 4 of x.go", x.what, x.where)
		}
	}
}
