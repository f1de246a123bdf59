package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of our own. They are sysexits.h's where it has one that fits, so
// that they rarely meet those of the commands that lock and elect run.
const (
	exitFailure     = 1
	exitUnavailable = 69 // the store cannot be reached or does not answer, or failed: no command was run
	exitNotAcquired = 75 // somebody else holds the lease: no command was run
	exitLost        = 76 // the lease was lost and the command stopped
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the signal's number
)

// exitError is an error with the exit code that it deserves.
type exitError struct {
	code int
	err  error // nil if there is nothing to say: a command's own exit code
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// run executes a command line and returns the process's exit code.
func run(args []string) int {
	root := rootCommand()
	if serve, _, err := root.Find(args); err == nil && serve.Name() == "serve" {
		args = oneDash(serve.Flags(), args)
	}
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	var exit exitError
	if !errors.As(err, &exit) {
		exit = exitError{exitFailure, err}
	}
	if exit.err != nil {
		fmt.Fprintln(os.Stderr, "tenure:", exit.err)
	}
	return exit.code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tenure",
		Short:         "Leases for distributed systems: rights that end by themselves",
		Example:       "  tenure serve\n  tenure lock nightly-report -- ./report\n  tenure lease list\n  tenure status",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionOf().Tenure,
	}
	root.SetVersionTemplate("tenure {{.Version}}\n")
	root.AddCommand(
		serveCommand(), peerCommand(),
		lockCommand(), electCommand(), leaseCommand(), statusCommand(), readLeaseCommand(), simCommand(), benchCommand(), versionCommand(),
		broadcastCommand(), deliverCommand(), regroupCommand(),
		shepherdCommand(),
		orderedMemberCommand(),
	)
	return root
}
