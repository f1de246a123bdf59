package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// run executes a command line and returns the process's exit code.
func run(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "tenure:", err)
		return 1
	}
	return 0
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tenure",
		Short:         "Leases for distributed systems: rights that end by themselves",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand())
	return root
}
