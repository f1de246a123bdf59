package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of our own. They are sysexits.h's where it has one that fits, so
// that they rarely meet those of the commands that lock and elect run.
const (
	ExitFailure     = 1
	ExitUsage       = 64 // the command line makes no sense: nothing was done
	ExitUnavailable = 69 // the store cannot be reached or does not answer, or failed: no command was run
	ExitCannotMake  = 73 // there is something else where a store was to be made: nothing was made
	ExitNotAcquired = 75 // somebody else holds the lease: no command was run
	ExitLost        = 76 // the lease was lost and the command stopped
	ExitRemoved     = 77 // the member was removed from its cluster, and never starts again from its data directory
	ExitConfig      = 78 // clocks of hosts contradict each other: no command was run
	ExitDone        = 79 // the command was run in this period already; beyond sysexits.h
	ExitCannotRun   = 126
	ExitNotFound    = 127
	ExitSignal      = 128 // plus the signal's number
)

// ExitError is an error with the exit code that it deserves.
type ExitError struct {
	Code int
	Err  error // nil if there is nothing to say: a command's own exit code
}

// Exit gives an error an exit code. The error may be nil.
func Exit(code int, err error) ExitError { return ExitError{code, err} }

// Otherwise gives an error an exit code if it has none.
func Otherwise(code int, err error) error {
	if err == nil || errors.As(err, new(ExitError)) {
		return err
	}
	return Exit(code, err)
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e ExitError) Unwrap() error { return e.Err }

// Execute executes a program's command line. The error of wrong usage has the exit code ExitUsage.
func Execute(program *cobra.Command, args []string) error {
	program.SetArgs(args)
	if err := strict(program, args); err != nil {
		return err
	}
	return program.Execute()
}

// plain puts what libraries say into words for people.
func plain(message string) string {
	return programmers.Replace(message)
}

var programmers = strings.NewReplacer(
	"context deadline exceeded", "no answer in time",
	"context canceled", "stopped",
	"i/o timeout", "no answer in time", // of a connection, whose deadline is the context's
	"rpc error: code = Unavailable desc = ", "",
	"rpc error: code = DeadlineExceeded desc = ", "",
	"rpc error: code = Canceled desc = ", "",
	"tenure.Shared", "--shared",
)

// Run executes a program's command line and returns the exit code. It says an error in a line on
// standard error; the program's own SilenceErrors and SilenceUsage keep cobra from saying it, too.
func Run(program *cobra.Command, args []string) int {
	out := &watchedOutput{to: program.OutOrStdout()}
	program.SetOut(out)
	err := cmp.Or(Execute(program, args), out.trouble())
	if err == nil {
		return 0
	}
	var exit ExitError
	if !errors.As(err, &exit) {
		exit = Exit(ExitFailure, err)
	}
	if bare, ok := err.(ExitError); !ok || bare.Err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", program.Name(), plain(err.Error())) // all of it: the code may be of a part
	}
	return exit.Code
}
