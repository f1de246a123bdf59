package main

import (
	"github.com/spf13/cobra"
)

// The groups of commands in the help.
var groups = []*cobra.Group{
	{ID: "worlds", Title: "Simulated worlds:"},
	{ID: "papers", Title: "Figures and tables of papers:"},
	{ID: "speed", Title: "How fast protocols are:"},
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenure-lab",
		Short: "Tenure's protocols under faults, beside papers and beside others",
		Long: `Plays the state machines that Tenure ships in simulated worlds, reproduces the figures
and tables of the papers that they come from, and compares protocols. It needs no
server and is none: the command tenure keeps leases and uses them.`,
		Example:       "  tenure-lab sim replica --worlds 1000\n  tenure-lab figure5 --svg figure5.svg\n  tenure-lab quorum-leases --html report.html\n  tenure-lab broadcast --clients 1,64 -o json",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(groups...)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("worlds", simCommand())
	add("papers", figure5Command(), quorumLeasesCommand(), contentionCommand())
	add("speed", fleaseCommand(), fleaseScaleCommand(), broadcastCommand())
	root.AddCommand(orderedMemberCommand())
	return root
}
