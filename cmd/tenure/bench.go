package main

import "github.com/spf13/cobra"

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure servers, one beside another if you like",
		Long: `Measures on your machines what docs/performance.md shows. For leases in a directory see
tenure lease bench.`,
		Example: "  tenure bench server --at etcd://10.0.0.1:2379 --beside http://10.0.0.2:2379",
	}
	cmd.AddCommand(benchServerCommand())
	return cmd
}
