package main

import (
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
)

// run executes a command line and returns the process's exit code.
func run(args []string) int {
	logging.Disable() // of the Redis client, whose lines say again what our errors say
	root := rootCommand()
	if serve, _, err := root.Find(args); err == nil && serve.Name() == "serve" {
		args = oneDash(serve.Flags(), proxyAlone(args))
	}
	return cli.Run(root, args)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenure",
		Short: "Leases for distributed systems: rights that end by themselves",
		Long: `Leases for distributed systems: rights that end by themselves.

Every command exits with 64 if its command line makes no sense; then it has done nothing.
The other exit codes are in the help of each command, all of them in that of tenure lock.`,
		Example:       "  tenure serve\n  tenure lock nightly-report -- ./report\n  tenure lease list\n  tenure status",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionOf().Tenure,
	}
	root.SetVersionTemplate("tenure {{.Version}}\n")
	root.AddCommand(
		serveCommand(), peerCommand(),
		lockCommand(), electCommand(), leaseCommand(), statusCommand(), memberCommand(), snapshotCommand(), readLeaseCommand(), benchCommand(), versionCommand(),
		broadcastCommand(), deliverCommand(), regroupCommand(), agreeCommand(),
		shepherdCommand(),
	)
	completeAts(root)
	return root
}
