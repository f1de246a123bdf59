package main

import (
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
	for name, text := range packageUnderTest {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := breakPackage(dir, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := prepare(t.Context(), t.TempDir(), []string{dir}, b, regexp.MustCompile(""))
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
	want := "package x\n\nfunc f(a, b int) bool {\n\treturn ((broken(1) || ((a < b || broken(3) && a == b))) && (broken(2) || ((b < 7 || broken(4) && b == 7))))\n}\n"
	if got := string(b.sources["x.go"]); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for _, x := range b.breaks {
		if x.line != 4 {
			t.Errorf("%s is in line %d, want 4", x.what, x.line)
		}
	}
}
