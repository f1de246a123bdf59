package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mutant is a file of testdata/mutants: the rule that it breaks, the test that
// catches it, and edits.
type mutant struct {
	dir        string // of the test's package
	name, rule string
	test       string   // as -run would have it, but for the anchors: TestScripts/a-name
	flags      []string // of the test's binary
	says       string   // words of the test's judgement; "" in a file that has none yet
	edits      []Edit
	random     string // a test that plays worlds at random, which were tried, too; "" if none
	needed     int    // how many worlds that took; 0: it lived through tried
	tried      int
}

// Edit replaces a text that occurs in a file exactly once. Path is from the module's root.
type Edit struct{ Path, Before, After string }

// Edits reads the file of a mutant, or of a bug that no test is known to catch: its first line, which
// is the rule that it breaks, and the edits.
func Edits(file string) (rule string, edits []Edit, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	head, rest, _ := strings.Cut(string(raw), "\n\n")
	rule, _, _ = strings.Cut(head, "\n")
	if edits, err = parseEdits(rest); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return rule, edits, err
}

// load reads all mutants of a test package's directory, by name.
func load(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "testdata/mutants/*.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no files testdata/mutants/*.txt in %s", dir)
	}
	var list []mutant
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m.dir, m.name = dir, strings.TrimSuffix(filepath.Base(file), ".txt")
		list = append(list, m)
	}
	return list, nil
}

// parse reads a mutant.
func parse(raw string) (m mutant, err error) {
	head, rest, ok := strings.Cut(raw, "\n\n")
	if !ok {
		return m, fmt.Errorf("want a rule and a test, then a blank line")
	}
	rule, caught, ok := strings.Cut(head, "\ncaught by: ")
	caught, at, measured := strings.Cut(caught, inWorlds)
	caught, says, _ := strings.Cut(caught, inWords)
	command := strings.Fields(caught)
	if !ok || len(command) == 0 {
		return m, fmt.Errorf("want a second line `caught by: a test, its flags`")
	}
	m.rule, m.test, m.flags, m.says = rule, command[0], command[1:], strings.TrimSpace(says)
	if measured {
		if m.random, m.needed, m.tried, err = parseWorlds(at); err != nil {
			return m, err
		}
	}
	m.edits, err = parseEdits(rest)
	return m, err
}

func parseEdits(rest string) (edits []Edit, err error) {
	for rest = strings.Trim(rest, "\n"); rest != ""; rest = strings.Trim(rest, "\n") {
		var e Edit
		var ok [3]bool
		e.Path, rest, ok[0] = strings.Cut(rest, "\n<<<<\n")
		e.Before, rest, ok[1] = strings.Cut(rest, "\n====\n")
		e.After, rest, ok[2] = strings.Cut("\n"+rest, "\n>>>>")
		if ok != [3]bool{true, true, true} {
			return nil, fmt.Errorf("want a path, <<<<, ====, >>>>, each on its own line")
		}
		e.After = strings.TrimPrefix(e.After, "\n")
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return nil, fmt.Errorf("want an edit")
	}
	return edits, nil
}

// anchored is a test's name as -run has it.
func anchored(test string) string {
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+part+"$")
	}
	return strings.Join(parts, "/")
}

// args are the arguments of `go test` that catch the mutant.
func (m mutant) args() []string {
	args := []string{"-run", anchored(m.test), "."}
	if len(m.flags) > 0 {
		args = append(append(args, "-args"), m.flags...)
	}
	return args
}

// These lines may follow the first two, in this order.
const (
	inWords  = "\nsays: "
	inWorlds = "\nin worlds: "
)

// parseWorlds reads what TestMutantWorlds has found out, as [mutant.found] writes it.
func parseWorlds(text string) (test string, needed, tried int, err error) {
	if test, lived, ok := strings.Cut(text, " none of "); ok {
		tried, err = strconv.Atoi(lived)
		return test, 0, tried, err
	}
	test, number, _ := strings.Cut(text, " ")
	if needed, err = strconv.Atoi(number); err == nil && needed < 1 {
		err = fmt.Errorf("%d worlds", needed)
	}
	return test, needed, needed, err
}

// found is the finding of a test at random.
func (m mutant) found() string {
	if m.needed == 0 {
		return fmt.Sprintf("%s none of %d", m.random, m.tried)
	}
	return fmt.Sprintf("%s %d", m.random, m.needed)
}

// column is the table's text about the worlds needed.
func (m mutant) column() string {
	switch {
	case m.random == "":
		return m.worlds()
	case m.needed == 0:
		return fmt.Sprintf("%s; `%s` not in %d", m.worlds(), m.random, m.tried)
	}
	return fmt.Sprintf("%s; `%s` %d", m.worlds(), m.random, m.needed)
}

// worlds is how many worlds, storms, crashes or checks it takes to catch the mutant, or "script".
func (m mutant) worlds() string {
	for i, f := range m.flags {
		if name, n, ok := strings.Cut(f, "="); ok && name == "-worlds" {
			return n
		}
		if f == "-worlds" && i+1 < len(m.flags) {
			return m.flags[i+1]
		}
		if (f == "-crashes" || f == "-storms" || f == "-rapid.checks") && i+1 < len(m.flags) {
			return m.flags[i+1] + " " + strings.TrimPrefix(f[1:], "rapid.")
		}
		if strings.HasPrefix(f, "-seed") {
			return "1"
		}
		if f == "-storm" {
			return "1 storm"
		}
	}
	return "script"
}

// edited returns the texts of files below root once they are edited, by path.
func edited(root string, edits []Edit) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		text, read := texts[e.Path]
		if !read {
			raw, err := os.ReadFile(filepath.Join(root, e.Path))
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.Before); n != 1 {
			return nil, fmt.Errorf("it no longer applies: this text is %d times in %s:\n%s", n, e.Path, e.Before)
		}
		texts[e.Path] = strings.Replace(text, e.Before, e.After, 1)
	}
	return texts, nil
}

// patience is for how long the mutant's test may run.
func (m mutant) patience() time.Duration {
	if m.worlds() == "script" {
		return 2 * time.Minute
	}
	return 15 * time.Minute
}

// Plant writes edited sources into dir, and the overlay that puts them in place of those below
// root. Others replace the files at more, which need not exist.
func Plant(root, dir string, edits []Edit, more map[string]string) (overlay string, err error) {
	texts, err := edited(root, edits)
	if err != nil {
		return "", err
	}
	return lay(root, dir, texts, more)
}

// lay writes sources into dir, and an overlay as [Plant] does.
func lay(root, dir string, texts, more map[string]string) (overlay string, err error) {
	replace := map[string]string{}
	for path, file := range more {
		replace[filepath.Join(root, path)] = file
	}
	for path, text := range texts {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, path)] = file
	}
	p, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, p, 0o600)
}
