package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// program has a command of each kind.
func program() *cobra.Command {
	root := &cobra.Command{Use: "prog", SilenceUsage: true, SilenceErrors: true}
	group := &cobra.Command{Use: "group"}
	ok := func(*cobra.Command, []string) error { return nil }
	show := &cobra.Command{Use: "show NAME", Args: cobra.ExactArgs(1), RunE: ok}
	var o Output
	o.Register(show)
	show.Flags().IntP("number", "n", 1, "")
	show.Flags().Duration("for", time.Second, "")
	show.Flags().Bool("loud", false, "")
	group.AddCommand(show, &cobra.Command{Use: "shelve", Args: cobra.NoArgs, RunE: ok}, &cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: ok})
	send := &cobra.Command{Use: "send [MESSAGE]...", RunE: ok}
	send.Flags().String("at", "", "`directory` of a member")
	send.Flags().String("by", "", "")
	send.Flags().String("with", "", "")
	_ = send.MarkFlagRequired("at")
	send.MarkFlagsMutuallyExclusive("by", "with")
	state := &cobra.Command{Use: "state", Args: cobra.NoArgs, RunE: ok}
	state.AddCommand(&cobra.Command{Use: "set", RunE: ok})
	odd := &cobra.Command{Use: "odd", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return errors.New("odd") }}
	root.AddCommand(group, send, state, odd)
	return root
}

// Wrong usage ends with the exit code of wrong usage, whichever part of a command line is wrong, and
// a sentence says what to write.
func TestWrongUsage(t *testing.T) {
	for line, says := range map[string]string{
		"nosuch":                      `"nosuch" is no command of prog: prog --help lists them`,
		"stat":                        `did you mean state?`,
		"group sh":                    "did you mean show or shelve?",
		"group shwo x":                `"shwo" is no command of prog group: did you mean show?`,
		"state nosuch":                `"nosuch" is no command of prog state: prog state --help lists them`,
		"help nosuch":                 `"nosuch" is no command of prog`,
		"help group nosuch":           `"nosuch" is no command of prog group`,
		"help group nosuch either":    `"nosuch" is no command of prog group`,
		"completion nosuch":           `"nosuch" is no command of prog completion`,
		"group show":                  "an argument is missing: write prog group show NAME",
		"group show a b":              `"b" is too much: write prog group show NAME`,
		"group list a":                `"a" is too much: write prog group list`,
		"group show a --nosuch":       "--nosuch is no flag of prog group show: prog group show --help lists them",
		"group show a -xn":            "-x is no flag of prog group show",
		"group show a --x":            "--x is no flag of prog group show",
		"group --nosuch":              "--nosuch is no flag of prog group",
		"group show a -n b":           `-n (--number) "b": want a whole number`,
		"group show a --for 5":        `--for "5": want a time with its unit, such as 15s or 2m`,
		"group show a --loud=perhaps": `--loud "perhaps": want true or false`,
		"group show a -o xml":         `-o (--output) "xml": want table or json`,
		"group show a --for":          "--for has no value: want a time with its unit",
		"send --at":                   "--at has no value: want directory",
		"send a":                      "give --at directory: prog send --help explains",
		"send --at a --by b --with c": "[by with]",
	} {
		err := Execute(program(), strings.Fields(line))
		if wantExit(t, err, ExitUsage); err == nil || !strings.Contains(" "+err.Error(), " "+says) && !strings.Contains(err.Error(), ": "+says) {
			t.Errorf("prog %s: %v, want it to say %q", line, err, says)
		}
	}
}

// A command line that makes sense is not refused, and an error of what it does is none of usage.
func TestRightUsage(t *testing.T) {
	for _, line := range []string{"", "group", "group show a -n 3 --for 5s -o json", "send --at a b c", "state", "state set x", "help", "help group show", "completion bash", "__complete group sh"} {
		p := program()
		p.SetOut(new(strings.Builder))
		p.SetErr(new(strings.Builder))
		if err := Execute(p, strings.Fields(line)); err != nil {
			t.Errorf("prog %s: %v", line, err)
		}
	}
	if err := Execute(program(), []string{"odd"}); err == nil || errors.As(err, new(ExitError)) {
		t.Errorf("an error of what a command does is %v, want it as it was", err)
	}
	wantExit(t, Usage(Exit(ExitLost, nil)), ExitLost)
	if err := Usage(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
