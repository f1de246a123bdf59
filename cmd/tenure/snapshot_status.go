package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/backup"
)

// snapshotStatus is what `snapshot status` prints. Hash, revision, totalKey, totalSize and version are named as by
// etcd's tools.
type snapshotStatus struct {
	Hash      uint32 `json:"hash"`
	Revision  int64  `json:"revision"`
	TotalKey  int    `json:"totalKey"`
	TotalSize int64  `json:"totalSize"`
	Version   string `json:"version"`
	Compacted int64  `json:"compacted"` // the oldest revision that can be read; -1: all of them
	Leases    int    `json:"leases"`
	Checksum  bool   `json:"checksum"` // the file has one, and it matches
}

func snapshotStatusCommand() *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "Tell what is in a saved file, and whether it is whole",
		Long: `Tells the revision, the keys and the leases of a file that snapshot save or etcd's tools have saved,
and whether its checksum matches. A file that was copied out of an etcd's data directory has no
checksum.

HASH is that of etcd's tools.`,
		Example: "  tenure snapshot status tenure.db\n  tenure snapshot status tenure.db -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, summed, err := readSnapshot(args[0], true)
			if err != nil {
				return err
			}
			s := snapshotStatus{
				Hash: c.Hash, Revision: c.Revision, TotalKey: c.Keys, TotalSize: c.Bytes, Version: c.Version,
				Compacted: c.Compact, Leases: c.Leases, Checksum: summed,
			}
			return o.Print(cmd.OutOrStdout(), s, func() { s.table(cmd.OutOrStdout()) })
		},
	}
	o.Register(cmd)
	return cmd
}

func (s snapshotStatus) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "HASH\tREVISION\tHISTORY FROM\tKEYS\tLEASES\tBYTES\tVERSION\tCHECKSUM")
	from, sum := "the first", "none"
	if s.Compacted > 0 {
		from = fmt.Sprint(s.Compacted)
	}
	if s.Checksum {
		sum = "matches"
	}
	fmt.Fprintf(tw, "%x\t%d\t%s\t%d\t%d\t%d\t%s\t%s\n", s.Hash, s.Revision, from, s.TotalKey, s.Leases, s.TotalSize, s.Version, sum)
	tw.Flush()
}

// readSnapshot reads a file, whose checksum must match if it has one; without one it is read if bare is set.
func readSnapshot(path string, bare bool) (c *backup.Content, summed bool, err error) {
	switch err := backup.CheckSum(path); {
	case err == nil:
		summed = true
	case bare && isBare(err):
	default:
		return nil, false, err
	}
	c, err = backup.Read(path)
	return c, summed, err
}
