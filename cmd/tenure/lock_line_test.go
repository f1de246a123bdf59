package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// lockLine is what a command line of lock asks for.
func lockLine(t *testing.T, args ...string) (*tenancy, *every) {
	t.Helper()
	var ten tenancy
	var e every
	cmd := &cobra.Command{Use: "lock", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, args []string) error {
		if err := ten.complete(cmd, args); err != nil {
			return err
		}
		return e.complete(cmd.Flags(), &ten)
	}}
	ten.claim.Slots = 1
	ten.register(cmd.Flags())
	e.register(cmd.Flags())
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	ten.events.close()
	return &ten, &e
}
