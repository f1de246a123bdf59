package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

// weaveBugs puts the bugs of a directory's files into the packages that they change, below the working
// directory.
func weaveBugs(dir string, only *regexp.Regexp) (*broken, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	b := &broken{sources: map[string][]byte{}}
	var bugs [][]mutant.Edit
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !only.MatchString(name) {
			continue
		}
		rule, edits, err := mutant.Edits(file)
		if err != nil {
			return nil, err
		}
		bugs = append(bugs, edits)
		b.breaks = append(b.breaks, brk{len(bugs), name, rule})
	}
	if len(bugs) == 0 {
		return nil, fmt.Errorf("there are no bugs in %s: name a directory with files *.txt", dir)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	texts, in, err := mutant.Weave(root, bugs, fmt.Sprintf(asks, len(bugs)+1))
	if err != nil {
		return nil, err
	}
	for i := range bugs {
		if !in[i] {
			return nil, fmt.Errorf("%s changes more than bodies of functions: try it by hand", b.breaks[i].where)
		}
	}
	for path, text := range texts {
		b.sources[filepath.Join(root, path)] = []byte(text)
	}
	return b, nil
}
