package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var manDir = flag.String("man", "", "where TestManPages writes the manual pages")

// The manual pages are made of the commands and their help by `make man`. That is a flag of a test, so that
// nothing of it ships, and no page can be made that the test has not read.

// manned are the commands with a page, by its name: tenure-lock is that of tenure lock.
func manned() map[string]*cobra.Command {
	root := rootCommand()
	root.InitDefaultCompletionCmd("completion")
	pages := map[string]*cobra.Command{}
	for _, cmd := range commands(root) {
		if !cmd.Hidden && cmd.Name() != "help" {
			cmd.InitDefaultHelpFlag()
			pages[manName(cmd)] = cmd
		}
	}
	return pages
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of a command. It has no date, so that the same sources make the same page.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" Tenure \"Tenure's manual\"\n.nh\n.ad l\n", strings.ToUpper(roff(manName(cmd))))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(manName(cmd)), roff(lowered(cmd.Short)))
	section("SYNOPSIS")
	if cmd.Runnable() {
		fmt.Fprintf(&b, ".B %s\n", roff(cmd.UseLine()))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s\n", roff(cmd.CommandPath()+" COMMAND"))
	}
	section("DESCRIPTION")
	b.WriteString(roffText(cmp.Or(cmd.Long, cmd.Short)))
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(manName(sub)), roff(sub.Short))
			}
		}
	}
	section("OPTIONS")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		of, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR", roff(name))
		if of != "" {
			fmt.Fprintf(&b, " \\fI%s\\fR", roff(of))
		}
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) && !strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "\n%s\n", roff(usage))
	})
	if cmd.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(cmd.Example))
	}
	if cmd.HasParent() {
		section("SEE ALSO")
		fmt.Fprintf(&b, ".BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	return b.String()
}

// lowered has a small first letter, unless the first word is a name.
func lowered(text string) string {
	runes := []rune(text)
	if len(runes) > 1 && unicode.IsLower(runes[1]) {
		runes[0] = unicode.ToLower(runes[0])
	}
	return string(runes)
}

var lineStart = regexp.MustCompile(`(?m)^([.'])`)

// roff keeps what is a sign of roff in a text as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "        ").Replace(text)
	return lineStart.ReplaceAllString(text, `\&$1`)
}

// roffText sets a help text: lines that are indented stay lines, all others make paragraphs.
func roffText(text string) string {
	var b strings.Builder
	fixed := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n ")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		switch {
		case indented && !fixed:
			b.WriteString(".nf\n")
			fixed = true
		case !indented && fixed:
			b.WriteString(".fi\n")
			fixed = false
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if fixed {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// Each command has a page with all its flags, which roff takes without a word.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	pages := manned()
	var files []string
	for name, cmd := range pages {
		page := manPage(cmd)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			line := `\fB\-\-` + strings.ReplaceAll(f.Name, "-", `\-`) + `\fR`
			if f.Shorthand != "" {
				line = `\fB\-` + f.Shorthand + `, ` + strings.TrimPrefix(line, `\fB`)
			}
			if strings.Contains(page, "\n"+line) == f.Hidden {
				t.Errorf("%s: --%s is in the page: %v, and hidden: %v", name, f.Name, f.Hidden, f.Hidden)
			}
		})
		if cmd.HasParent() && !strings.Contains(manPage(cmd.Parent()), ".BR "+roff(name)+" (1)\n") {
			t.Errorf("the page of %s does not name %s", cmd.Parent().CommandPath(), name)
		}
		file := filepath.Join(dir, name+".1")
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(pages) < 30 || pages["tenure-lock"] == nil || pages["tenure-lease-show"] == nil || pages["tenure-shepherd"] != nil {
		t.Errorf("there are %d pages, want one for each command, and none for one that is hidden", len(pages))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("there is no groff to read the pages")
	}
	slices.Sort(files)
	out, err := exec.Command(groff, append([]string{"-ww", "-k", "-man", "-Tutf8", "-z"}, files...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff says %v, %.2000s", err, out)
	}
}

// A help text keeps its lines and signs.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"One\ntwo -x.\n\nThree":    "One\ntwo \\-x.\n.PP\nThree\n",
		"See\n  A  a\n  B  b\nEnd": "See\n.nf\n  A  a\n  B  b\n.fi\nEnd\n",
		".dot\n'quote\na\\b":       "\\&.dot\n\\&'quote\na\\eb\n",
		"  last":                   ".nf\n  last\n.fi\n",
	} {
		if got := roffText(text); got != want {
			t.Errorf("%q is set as %q, want %q", text, got, want)
		}
	}
	if got := lowered("Print it") + lowered("JSON is"); got != "print itJSON is" {
		t.Errorf("first letters: %q", got)
	}
}
