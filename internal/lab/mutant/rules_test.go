package mutant

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// label matches the label of a rule, such as R5, Q-1 or F21.
	label = regexp.MustCompile(`\b(?:[RPCLDMEF][1-9][0-9]?|[QSTFB]-[1-9])\b`)
	link  = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// Each label of a rule in a comment of the product is defined in docs/rules.md.
func TestLabelsAreDefined(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			defined[strings.TrimSpace(cells[1])] = true
		}
	}
	if len(defined) < 100 {
		t.Fatalf("docs/rules.md defines %d labels", len(defined))
	}
	checked := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || !strings.HasSuffix(path, ".go") || notShipped(rel) {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(source)) {
			_, comment, found := strings.Cut(line, "//")
			if !found {
				continue
			}
			for _, name := range label.FindAllString(comment, -1) {
				checked++
				if !defined[name] {
					t.Errorf("%s: %s is not in docs/rules.md: %s", rel, name, strings.TrimSpace(line))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("%d labels were found in comments: the search is broken", checked)
	}
}

// Each file that a page links to exists.
func TestLinkedFilesExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pages {
			page, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range link.FindAllStringSubmatch(string(page), -1) {
				links++
				if _, err := os.Stat(filepath.Join(filepath.Dir(name), l[1])); err != nil {
					t.Errorf("%s: %v", filepath.Base(name), err)
				}
			}
		}
	}
	if links < 300 {
		t.Errorf("all pages have %d links", links)
	}
}
