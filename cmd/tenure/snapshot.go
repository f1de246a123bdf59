package main

import (
	"github.com/spf13/cobra"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the server's state to a file, and start a cluster from one",
		Long: `Saves the state of the lease server, looks into a saved file, and makes data directories of
one. The file is in etcd's format: etcd's own tools read it, and a snapshot that was taken of an
etcd can be restored here.

A backup is as old as its file. A restore loses later writes, and leases that were granted
later are not known any more: see "After a restore" in restore's help.`,
		Example: `  tenure snapshot save /backup/tenure-$(date +%F).db
  tenure snapshot status /backup/tenure-2026-11-26.db
  tenure snapshot restore /backup/tenure-2026-11-26.db --data-dir /var/lib/tenure`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(snapshotSaveCommand(), snapshotStatusCommand(), snapshotRestoreCommand())
	return cmd
}
