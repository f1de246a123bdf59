package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// packageUnderTest has a test that notices some breaks and not others.
var packageUnderTest = map[string]string{
	"go.mod": "module example.org/limit\n\ngo 1.26\n",
	"limit.go": `package limit

type Limit struct{ n, most int }

func (l *Limit) Add(k int) bool {
	if l.n+k > l.most {
		return false
	}
	l.n += k
	return true
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

func TestTrial(t *testing.T) {
	dir := t.TempDir()
	for name, text := range packageUnderTest {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := breaksIn(dir, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	tr := trial{dirs: []string{dir}, each: time.Minute, temp: t.TempDir()}
	if said, err := tr.pass(t.Context()); err != nil {
		t.Fatalf("without a break: %v\n%s", err, said)
	}
	got := map[string]verdict{}
	for _, b := range list {
		v, err := tr.try(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		got[b.what] = v
	}
	want := map[string]verdict{
		"negated: l.n+k > l.most":  failed,
		">= for >: l.n+k > l.most": lived, // nothing is added up to the limit
		"- for +: l.n+k":           failed,
		"left out: l.n += k":       failed,
	}
	if len(got) != len(want) {
		t.Errorf("breaks: %v, want %d", got, len(want))
	}
	for what, v := range want {
		if got[what] != v {
			t.Errorf("%s: %q, want %q", what, got[what], v)
		}
	}
}

func TestNothingToBreak(t *testing.T) {
	if _, err := breaksIn(t.TempDir(), regexp.MustCompile("")); err == nil {
		t.Error("an empty directory has breaks")
	}
}

// A break has the place that it says, and nothing else differs.
func TestSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	src := []byte("package x\n\nfunc f(a, b int) bool {\n\treturn a < b && b < 7\n}\n")
	if err := os.WriteFile(file, src, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := breaksOf(file, src)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range list {
		p, err := b.source()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(p[len("package x\n\nfunc f(a, b int) bool {\n\treturn "):len(p)-3]))
		if b.line != 4 {
			t.Errorf("%s is in line %d, want 4", b.what, b.line)
		}
	}
	slices.Sort(got)
	if want := []string{"a < b && b <= 7", "a < b || b < 7", "a <= b && b < 7"}; !slices.Equal(got, want) {
		t.Errorf("breaks are %q, want %q", got, want)
	}
}
