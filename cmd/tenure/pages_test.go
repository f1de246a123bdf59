package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// block is a piece of code of a page: one that is indented by four spaces, which is for a shell, or
// one between fences that name its language.
type block struct {
	page     string // from the root of the module
	line     int    // of its first line
	language string
	lines    []string
	unrun    map[string]string // reasons by line, of the lines that no test can run
}

// A mark stands on a line of its own before a block, and readers of the page do not see it:
//
//	<!-- not run: `tenure serve`: it takes the default ports -->
//
// It is of the lines of the block that begin with the command.
var markOf = regexp.MustCompile("^<!-- not run: `([^`]+)`: (.+) -->$")

// pagesOf are README.md and docs/*.md.
func pagesOf(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	pages := []string{"README.md"}
	for _, doc := range docs {
		pages = append(pages, "docs/"+filepath.Base(doc))
	}
	return pages
}

func textOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the blocks of a page and what is wrong with their marks.
func blocks(page, text string) (all []block, mistakes []string) {
	var at *block
	marks := map[string]string{}
	mistake := func(line int, format string, args ...any) {
		mistakes = append(mistakes, fmt.Sprintf("%s:%d: ", page, line)+fmt.Sprintf(format, args...))
	}
	begin := func(line int, language string) {
		at = &block{page: page, line: line, language: language, unrun: map[string]string{}}
	}
	end := func() {
		for len(at.lines) > 0 && at.lines[len(at.lines)-1] == "" {
			at.lines = at.lines[:len(at.lines)-1]
		}
		for _, command := range slices.Sorted(maps.Keys(marks)) {
			of := len(at.unrun)
			for _, line := range at.lines {
				if strings.HasPrefix(line, command) {
					at.unrun[line] = marks[command]
				}
			}
			if len(at.unrun) == of {
				mistake(at.line, "no line of this block begins with %q, which is marked as not run", command)
			}
		}
		clear(marks)
		all, at = append(all, *at), nil
	}
	fenced, blank := false, true
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		fence, isFence := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fenced && isFence:
			fenced = false
			end()
		case fenced:
			at.lines = append(at.lines, line)
		case at != nil && (indented || line == ""):
			at.lines = append(at.lines, code)
		case indented && blank:
			begin(n, "sh")
			at.lines = append(at.lines, code)
		default:
			if at != nil {
				end()
			}
			if mark := markOf.FindStringSubmatch(line); mark != nil {
				marks[mark[1]] = mark[2]
			} else if strings.Contains(line, "not run:") {
				mistake(n, "a mark is <!-- not run: `COMMAND`: REASON -->")
			} else if line != "" && !isFence && len(marks) > 0 {
				mistake(n, "a mark stands directly before its block")
				clear(marks)
			}
			if isFence {
				if fenced = true; fence == "" {
					mistake(n, "the fence names no language: sh for commands that a reader types, text for none")
				}
				begin(n+1, fence)
			}
		}
		blank = line == ""
	}
	if at != nil {
		end()
	}
	return all, mistakes
}

// A block is found in each form, and a mark that is of nothing is a mistake.
func TestBlocks(t *testing.T) {
	const page = "one\n    not code\n\n    a\n\n    b # c\ntwo\n\n```go\nx()\n```\n\n<!-- not run: `d`: why -->\n<!-- not run: `e`: too -->\n\n```sh\nd e\nf\ne\n```\n"
	got, mistakes := blocks("P", page)
	if len(got) != 3 || len(mistakes) != 0 {
		t.Fatalf("got %+v, %q", got, mistakes)
	}
	for i, want := range []string{`sh 4 ["a" "" "b # c"] map[]`, `go 10 ["x()"] map[]`, `sh 17 ["d e" "f" "e"] map["d e":"why" "e":"too"]`} {
		if is := fmt.Sprintf("%s %d %q %q", got[i].language, got[i].line, got[i].lines, got[i].unrun); is != want {
			t.Errorf("got %s, want %s", is, want)
		}
	}
	for text, want := range map[string]string{
		"<!-- not run: `x`: why -->\n\n    y\n":       "P:3: no line of this block begins with \"x\"",
		"<!-- not run: x -->\n\n    x\n":              "P:1: a mark is",
		"<!-- not run: `x`: why -->\ntext\n\n    x\n": "P:2: a mark stands directly before its block",
		"```\nx\n```\n": "P:1: the fence names no language",
	} {
		if _, mistakes := blocks("P", text); len(mistakes) != 1 || !strings.HasPrefix(mistakes[0], want) {
			t.Errorf("%q: got %q, want %q", text, mistakes, want)
		}
	}
}

// span is code within a sentence.
var span = regexp.MustCompile("`([^`\n]+)`")

// Each command that a page names, in a block or a sentence, is there, with its flags.
func TestPagesNameCommands(t *testing.T) {
	flags := map[string]bool{}
	root := rootCommand()
	root.InitDefaultCompletionCmd("completion")
	for _, c := range commands(root) {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
	}
	var named int
	for _, page := range pagesOf(t) {
		if page == "docs/evidence.md" {
			continue // it names packages, and tenure is one
		}
		text := textOf(t, page)
		blocks, _ := blocks(page, text)
		for n, line := range strings.Split(text, "\n") {
			codes := []string{}
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				codes = append(codes, m[1])
			}
			for _, b := range blocks {
				if i := n + 1 - b.line; i >= 0 && i < len(b.lines) {
					if codes = nil; b.language == "sh" {
						codes = []string{strings.TrimSuffix(b.lines[i], "\\")}
					}
				}
			}
			for _, code := range codes {
				words := append(strings.Fields(code), "")
				if strings.HasPrefix(words[0], "--") && page != "docs/wide-area.md" { // its flags are tenure-lab's, too
					if name, _, _ := strings.Cut(words[0], "="); len(words) < 4 && !flags[name] {
						t.Errorf("%s:%d: no command has %s", page, n+1, name)
					}
				}
				if i := slices.Index(words, "tenure"); i == 0 {
					named++
					if wrong := unknownWord(root, words[1:]); wrong != "" {
						t.Errorf("%s:%d: %s: %s", page, n+1, code, wrong)
					}
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("the pages name %d commands, want at least 40", named)
	}
}

func commands(of *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{of}
	for _, c := range of.Commands() {
		all = append(all, commands(c)...)
	}
	return all
}

// unknownWord says which word of a command line is no command or flag.
func unknownWord(root *cobra.Command, words []string) string {
	command := root
	for _, word := range words {
		if word == "" || word == "#" || word == "…" || word == "--" || word == "&" {
			break
		}
		if strings.HasPrefix(word, "--") {
			name, _, _ := strings.Cut(word[2:], "=")
			command.InitDefaultHelpFlag()
			if command.Flags().Lookup(name) == nil && command.InheritedFlags().Lookup(name) == nil {
				return "no flag " + word
			}
			continue
		}
		next := slices.IndexFunc(command.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
		switch {
		case next >= 0:
			command = command.Commands()[next]
		case command.HasSubCommands() && !command.Runnable(): // it takes no words of its own
			return "no command " + word
		}
	}
	return ""
}

// A command or flag that is not there is named.
func TestUnknownWords(t *testing.T) {
	for line, want := range map[string]string{
		"lock x --every 20h -- y --odd": "", "lease show x": "", "lease odd": "no command odd", "odd": "no command odd",
		"lock x --odd": "no flag --odd", "lease list --watch=x --odd": "no flag --odd", "read-lease set all --order key": "",
	} {
		if got := unknownWord(rootCommand(), strings.Fields(line)); got != want && (want == "" || got == "" || !strings.HasPrefix(got, want[:7])) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
