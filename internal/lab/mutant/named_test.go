package mutant

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// code matches a span of code of a page, with the word "script" before it if that is there.
	code     = regexp.MustCompile("(script )?`([^`\n]+)`")
	testName = regexp.MustCompile(`^(Test\w*)(?:/([\w-]+))?$`)
	bugName  = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)+$`)
	goFile   = regexp.MustCompile(`^[\w.-]+/[\w./-]+\.go$`)
)

// TestNamedInEvidence: docs/evidence.md names no test, script, file or planted bug that does not exist.
func TestNamedInEvidence(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, evidencePath))
	if err != nil {
		t.Fatal(err)
	}
	p := pageOf(root)
	for block := range strings.SplitSeq(string(page), "\n\n") {
		for _, part := range parts(block) {
			for _, fault := range p.faults(part) {
				t.Error(fault)
			}
		}
	}
	if p.tests < 300 || p.scripts < 3 || p.bugs < 35 {
		t.Errorf("%d tests, %d scripts and %d planted bugs were found in %s: the search is broken", p.tests, p.scripts, p.bugs, evidencePath)
	}
}

func TestNamesThatDoNotExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]string{
		"`internal/lab/mutant` `TestNamesThatDoNotExist`, `TestCaught`":               "",
		"`internal/lab/mutant TestCaught` 2":                                          "",
		"`internal/lab/mutant` `TestNowhere`":                                         "internal/lab/mutant has no test TestNowhere",
		"`internal/lab/mutant TestNowhere` 2":                                         "internal/lab/mutant has no test TestNowhere",
		"`mutant` `TestCaught`":                                                       "no package stands before TestCaught",
		"`cmd/tenure` `TestCaught`":                                                   "cmd/tenure has no test TestCaught",
		"`cmd/tenure` `TestScripts/stopped`":                                          "",
		"`cmd/tenure` `TestScripts/nowhere`":                                          "cmd/tenure has no script nowhere",
		"`internal/lab/fleasesim` script `lock-delay`":                                "",
		"`internal/lab/fleasesim` script `lock-nowhere`":                              "internal/lab/fleasesim has no script lock-nowhere",
		"| `fence` `TestRowOnASnapshot` | `row-shows-the-snapshot` |":                 "",
		"| `fence` `TestRowOnASnapshot` | `row-is-nowhere` |":                         "no planted bug row-is-nowhere in [fence]",
		"`internal/member/node/restart_test.go`":                                      "",
		"`internal/member/node/nowhere_test.go`":                                      "there is no file internal/member/node/nowhere_test.go",
		"`internal/holder/etcd` is a package, `make survivors` and `tenure` are none": "",
	} {
		if got := strings.Join(pageOf(root).faults(part), "; "); got != want {
			t.Errorf("%s: got %q, want %q", part, got, want)
		}
	}
}

// parts are the parts of a page's block in which names belong together: the rows of a table, or the whole block.
func parts(block string) []string {
	if strings.HasPrefix(strings.TrimSpace(block), "|") {
		return strings.Split(block, "\n")
	}
	return []string{block}
}

// page checks the names of a page, and counts those that it found.
type page struct {
	root                 string
	sources              map[string]string // of the tests of a package, by its directory
	tests, scripts, bugs int
}

func pageOf(root string) *page { return &page{root: root, sources: map[string]string{}} }

// faults are the names of a part that do not exist. A test or a script belongs to the package that was named
// last, a planted bug to any package that the part names.
func (p *page) faults(part string) (faults []string) {
	var packages []string
	for _, found := range code.FindAllStringSubmatch(part, -1) {
		isScript, span := found[1] != "", found[2]
		dir, test, generated := strings.Cut(span, " ")
		if generated && testName.MatchString(test) { // as the table of planted bugs has it
			if dir == named(".") {
				dir = "."
			}
			packages, span = append(packages, dir), test
		}
		last := ""
		if len(packages) > 0 {
			last = packages[len(packages)-1]
		}
		switch name := testName.FindStringSubmatch(span); {
		case name != nil && last == "":
			faults = append(faults, "no package stands before "+span)
		case name != nil:
			p.tests++
			if !strings.Contains(p.source(last), "\nfunc "+name[1]+"(t *testing.T)") {
				faults = append(faults, last+" has no test "+name[1])
			} else if name[2] != "" && !p.hasScript(last, name[2]) {
				faults = append(faults, last+" has no script "+name[2])
			}
		case isScript:
			p.scripts++
			if !p.hasScript(last, span) {
				faults = append(faults, last+" has no script "+span)
			}
		case goFile.MatchString(span):
			if !p.exists(span) {
				faults = append(faults, "there is no file "+span)
			}
		case p.source(span) != "":
			packages = append(packages, span)
		case bugName.MatchString(span):
			p.bugs++
			if !slices.ContainsFunc(packages, func(dir string) bool { return p.exists(dir, "testdata/mutants", span+".txt") }) {
				faults = append(faults, "no planted bug "+span+" in ["+strings.Join(packages, " ")+"]")
			}
		}
	}
	return faults
}

func (p *page) exists(elements ...string) bool {
	_, err := os.Stat(filepath.Join(p.root, filepath.Join(elements...)))
	return err == nil
}

// source is the text of all tests of a directory, or "" if it has none.
func (p *page) source(dir string) string {
	if source, known := p.sources[dir]; known {
		return source
	}
	var text strings.Builder
	files, err := filepath.Glob(filepath.Join(p.root, dir, "*_test.go"))
	if err != nil {
		return ""
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		text.Write(raw)
	}
	p.sources[dir] = text.String()
	return p.sources[dir]
}

// hasScript reports whether a package has a script: one of its tests' tables, or a file.
func (p *page) hasScript(dir, name string) bool {
	return strings.Contains(p.source(dir), strconv.Quote(name)) || p.exists(dir, "testdata/script", name+".txtar")
}
