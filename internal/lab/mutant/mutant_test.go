package mutant

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const script = "a rule\ncaught by: TestScripts/a-name\n\nx/x.go\n<<<<\n > 0\n====\n >= 0\n>>>>\n"

func TestParse(t *testing.T) {
	m, err := parse(script)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Edit{"x/x.go", " > 0", " >= 0"}); m.rule != "a rule" || m.test != "TestScripts/a-name" || len(m.edits) != 1 || m.edits[0] != want {
		t.Errorf("got %+v", m)
	}
	if want := []string{"-run", "^TestScripts$/^a-name$", "."}; !slices.Equal(m.args(), want) || m.worlds() != "script" {
		t.Errorf("it is caught by %q in %s, want %q in a script", m.args(), m.worlds(), want)
	}
	m, err = parse("a rule\ncaught by: TestWorlds -first 7 -worlds 12\n\nx.go\n<<<<\na\n====\n\n>>>>\n\ny.go\n<<<<\nb\nc\n====\nd\n>>>>\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []Edit{{"x.go", "a", ""}, {"y.go", "b\nc", "d"}}; !slices.Equal(m.edits, want) {
		t.Errorf("edits: got %q, want %q", m.edits, want)
	}
	if want := []string{"-run", "^TestWorlds$", ".", "-args", "-first", "7", "-worlds", "12"}; !slices.Equal(m.args(), want) || m.worlds() != "12" {
		t.Errorf("it is caught by %q in %s worlds, want %q in 12", m.args(), m.worlds(), want)
	}
}

// A test at random is not taken for a script, which gets two minutes and no more.
func TestWorldsNeeded(t *testing.T) {
	for flags, want := range map[string]string{
		"": "script", " -worlds 12": "12", " -worlds=12": "12", " -seed 7": "1", " -crashes 50": "50 crashes", " -storms 200": "200 storms", " -storm 35": "1 storm",
	} {
		m, err := parse(strings.Replace(script, "TestScripts/a-name", "TestIt"+flags, 1))
		if err != nil || m.worlds() != want {
			t.Errorf("TestIt%s: got %q, %v; want %q", flags, m.worlds(), err, want)
		}
	}
}

// Findings of worlds at random are read as they are written.
func TestInWorlds(t *testing.T) {
	for line, column := range map[string]string{
		"TestWorlds 37":          "script; `TestWorlds` 37",
		"TestWorlds none of 300": "script; `TestWorlds` not in 300",
	} {
		m := mutant{dir: t.TempDir(), name: "m", says: "two hold it"}
		file := filepath.Join(m.dir, "testdata/mutants/m.txt")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second takes the place of the first
			var err error
			if m.random, m.needed, m.tried, err = parseWorlds(line); err != nil {
				t.Fatal(err)
			}
			if err := m.write(); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := os.ReadFile(file)
		if err != nil || strings.Count(string(raw), line) != 1 {
			t.Fatalf("%s: wrote %s, %v", line, raw, err)
		}
		m, err = parse(string(raw))
		if err != nil || m.column() != column || m.says != "two hold it" || m.test != "TestScripts/a-name" || len(m.edits) != 1 {
			t.Errorf("%s: got %+v, %q, %v", line, m, m.column(), err)
		}
	}
	for _, line := range []string{"", "TestWorlds", "TestWorlds 0", "TestWorlds x", "TestWorlds none of many"} {
		if _, err := parse(strings.Replace(script, "a-name\n", "a-name\nin worlds: "+line+"\n", 1)); err == nil {
			t.Errorf("in worlds: %q is taken", line)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":       "",
		"no test":     strings.Replace(script, "caught by: TestScripts/a-name", "caught: it", 1),
		"a blank one": strings.Replace(script, "TestScripts/a-name", "", 1),
		"no edit":     "a rule\ncaught by: TestX\n\n",
		"no end":      strings.Replace(script, ">>>>", "", 1),
		"no middle":   strings.Replace(script, "====", "", 1),
	} {
		if m, err := parse(raw); err == nil {
			t.Errorf("%s: got %+v, want an error", name, m)
		}
	}
}

func TestPlant(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(root, "x", "x.go")
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := parse(script)
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		"if x > 0 {":           "if x >= 0 {",
		"if x < 0 {":           "no longer applies: this text is 0 times",
		"if x > 0 { if y > 0 ": "no longer applies: this text is 2 times",
	} {
		if err := os.WriteFile(source, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay, err := Plant(root, t.TempDir(), m.edits, nil)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", src, err, want)
			}
			continue
		}
		var o struct{ Replace map[string]string }
		if p, err := os.ReadFile(overlay); err != nil || json.Unmarshal(p, &o) != nil {
			t.Fatalf("overlay %s: %v", p, err)
		}
		if got, err := os.ReadFile(o.Replace[source]); err != nil || string(got) != want {
			t.Errorf("%s: planted %q, %v; want %q", src, got, err, want)
		}
		if got, err := os.ReadFile(source); err != nil || string(got) != src {
			t.Errorf("the source was changed: %q, %v", got, err)
		}
	}
}

func TestVerdict(t *testing.T) {
	const script = "--- FAIL: TestScripts (0.1s)\n    --- FAIL: TestScripts/x (0.1s)\n        x_test.go:12: stale read of 7\nFAIL"
	for name, tc := range map[string]struct{ out, says, want string }{
		"a script":                {script, "", "x_test.go:12: stale read of 7"},
		"the words announced":     {script, "stale read", "x_test.go:12: stale read of 7"},
		"other words":             {script, "two hold", ""},
		"a world":                 {"--- FAIL: TestWorlds\n    worlds_test.go:9: world 3 of 9 failed\n    worlds_test.go:9: seed 3: two hold\nFAIL", "", "worlds_test.go:9: seed 3: two hold"},
		"a panic":                 {"--- FAIL: TestX\npanic: boom\n", "", ""},
		"a panic behind a line":   {"--- FAIL: TestX\n    x_test.go:3: setup\npanic: boom\n", "", ""},
		"a panic that is a guard": {"--- FAIL: TestX\npanic: a vote was forgotten [recovered]\n", "a vote was forgotten", "panic: a vote was forgotten [recovered]"},
		"no compilation":          {"# pkg\n./x.go:3: undefined: y\nFAIL pkg [build failed]", "", ""},
		"words of no failure":     {"ok pkg: stale read\n", "stale read", ""},
		"a time-out":              {"panic: test timed out after 60s\n--- FAIL: TestX\n", "", ""},
		"no failed tests":         {"ok pkg\n", "", ""},
	} {
		if got := verdict(tc.out, tc.says); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// The words that are kept of a judgement are those that another run says again.
func TestWords(t *testing.T) {
	for said, want := range map[string]string{
		"x_test.go:12: seed 3: two hold the lease at 4.5s: a and b": "two hold the lease at",
		"x_test.go:12: got -1, want the one before":                 "want the one before",
		"x_test.go:1: /tmp/a/b: it is not there":                    "it is not there",
	} {
		if got := words(said); got != want {
			t.Errorf("%s: got %q, want %q", said, got, want)
		}
	}
}

// A mutant that lives, one that does not compile and one that is caught are told
// apart, in a module of their own.
func TestCaught(t *testing.T) {
	t.Chdir("testdata/module")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	list, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		overlay, err := Plant(root, t.TempDir(), m.edits, nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := m.caught(t.Context(), overlay)
		switch m.name {
		case "caught":
			if err != nil || !strings.Contains(said, "abs_test.go:7: got -1") {
				t.Errorf("%s: got %q, %v", m.name, said, err)
			}
		case "lives":
			if err == nil || !strings.Contains(err.Error(), "this mutant lives: a rule that no test checks") {
				t.Errorf("%s: got %q, %v", m.name, said, err)
			}
		case "does-not-compile":
			if err == nil || !strings.Contains(err.Error(), "no verdict") {
				t.Errorf("%s: got %q, %v", m.name, said, err)
			}
		default:
			t.Errorf("unknown mutant %s", m.name)
		}
	}
	if len(list) != 3 {
		t.Errorf("got %d mutants, want 3", len(list))
	}
	want, err := os.ReadFile("table.golden")
	if got := table("./abs", list); err != nil || got[strings.Index(got, "| planted"):] != string(want) {
		t.Errorf("the table: %v, got\n%s", err, got)
	}
}
