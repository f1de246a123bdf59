package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// restoredSnapshot is what `snapshot restore` prints.
type restoredSnapshot struct {
	File     string `json:"file"`
	DataDir  string `json:"data_dir"`
	Name     string `json:"name"`
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
	Keys     int    `json:"keys"`
	Leases   int    `json:"leases"`
	Orphans  int    `json:"keys_without_their_lease"`
}

// restoreOptions have the names and meanings of etcd's.
type restoreOptions struct {
	name, dataDir, logDir, advertisePeer, cluster, token string
	bump                                                 int64
	markCompacted, skipHash                              bool
}

func snapshotRestoreCommand() *cobra.Command {
	var r restoreOptions
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of a member of a new cluster from a saved file",
		Long: `Makes a data directory that begins with the state of FILE. Do it once for each member of the new
cluster, from the same FILE and with the same flags but for --name, --data-dir and
--initial-advertise-peer-urls; then start the members with the same --initial-cluster. A member that
began with another file, or with an empty directory, is of another cluster, and the others refuse it.

FILE may be a snapshot that was taken of an etcd. Its users and roles come back, in force if they
were.

After a restore, clients may have seen a later state than that of FILE. Start none of the old
members again. So the revision is raised by a thousand million (--bump-revision), beyond any that
clients have seen, and the history before it counts as compacted (--mark-compacted): caches and
watches notice and begin anew, and fencing tokens go on growing. Give more if more could have been
written since FILE was saved. A lock or lease that was granted after FILE was saved is not in it:
stop its holder before the members start, or its work may meet the next holder's.

--bump-revision 0 keeps the revision and the history as they are in FILE. It is for a move, when
nothing was written after FILE was saved; otherwise fencing tokens repeat.

` + fmt.Sprintf(`The exit code is
  0    the directory is made
  1    FILE cannot be used; nothing was made
  %d   wrong usage; nothing was made
  %d   the directory is not empty; nothing was made`, cli.ExitUsage, cli.ExitCannotMake),
		Example: `  # One member on this machine.
  tenure snapshot restore tenure.db --data-dir default.tenure
  tenure serve

  # Three members: on a, and likewise on b and c.
  tenure snapshot restore tenure.db --name a --data-dir /var/lib/tenure --initial-advertise-peer-urls http://10.0.0.1:2380 \
    --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380

  # A move from an etcd that has stopped, with its history.
  tenure snapshot restore etcd.db --data-dir default.tenure --bump-revision 0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("mark-compacted") {
				r.markCompacted = r.bump > 0
			}
			done, err := r.restore(args[0])
			if err != nil {
				return err
			}
			return o.Print(cmd.OutOrStdout(), done, func() { done.table(cmd.OutOrStdout()) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&r.name, "name", defaultName, "the member's `name`, one of those in --initial-cluster")
	f.StringVar(&r.dataDir, "data-dir", "", "`directory` to make (default NAME.tenure)")
	f.StringVar(&r.logDir, "wal-dir", "", "`directory` to make for the log, if it is not to be in --data-dir; start the member with the same flag")
	f.StringVar(&r.advertisePeer, "initial-advertise-peer-urls", defaultPeerURL, "the member's `URL` for the other members")
	f.StringVar(&r.cluster, "initial-cluster", "", "all members: `name=url,name=url,…` (default NAME=<initial-advertise-peer-urls>)")
	f.StringVar(&r.token, "initial-cluster-token", "etcd-cluster", "`text` that tells clusters with equal URLs apart")
	f.Int64Var(&r.bump, "bump-revision", 1_000_000_000, "`revisions` to add to that of the file; 0 keeps it, and its history")
	f.BoolVar(&r.markCompacted, "mark-compacted", true, "compact all history before the raised revision, so that watches begin anew")
	f.BoolVar(&r.skipHash, "skip-hash-check", false, "take a file without a checksum: one that was copied out of an etcd's data directory")
	o.Register(cmd)
	return cmd
}

func (s restoredSnapshot) table(w io.Writer) {
	fmt.Fprintf(w, "made %s of %s: revision %d, %d keys, %d leases; member %s of cluster %s\n", s.DataDir, s.File, s.Revision, s.Keys, s.Leases, s.Name, s.Cluster)
	if s.Orphans > 0 {
		fmt.Fprintf(w, "%d keys had a lease that is not in the file: they stay, without a lease\n", s.Orphans)
	}
}

func (r restoreOptions) restore(path string) (done restoredSnapshot, err error) {
	switch {
	case r.bump < 0:
		return done, cli.Usagef("--bump-revision %d: want how many revisions to add, more than were written since the file was saved", r.bump)
	case (r.bump > 0) != r.markCompacted:
		return done, cli.Usagef("--bump-revision %d with --mark-compacted=%t: history is compacted if the revision is raised, and else kept, for clients would miss changes or see some that never were; leave --mark-compacted out", r.bump, r.markCompacted)
	}
	if r.advertisePeer, err = peerURL("--initial-advertise-peer-urls", r.advertisePeer); err != nil {
		return done, cli.Usage(err)
	}
	peers, err := parseCluster(cmp.Or(r.cluster, r.name+"="+r.advertisePeer))
	if err != nil {
		return done, cli.Usage(err)
	}
	switch url := peers[r.name]; {
	case url == "":
		return done, cli.Usagef("--initial-cluster does not name %s: name each member with its peer URL, or give this one's --name", r.name)
	case url != r.advertisePeer:
		if err := onePlace(context.Background(), net.DefaultResolver, url, r.advertisePeer); err != nil {
			return done, cli.Usagef("--initial-cluster says that %s is at %s, --initial-advertise-peer-urls says %s: they must agree: %w", r.name, url, r.advertisePeer, err)
		}
	}
	c, _, err := readSnapshot(path, r.skipHash)
	if isBare(err) {
		return done, fmt.Errorf("%w; --skip-hash-check takes it as it is", err)
	}
	if err != nil {
		return done, err
	}
	digest := fmt.Sprintf("%08x of %d+%d", c.Hash, c.Revision, r.bump)
	if r.bump > 0 {
		if err := c.Raise(r.bump); err != nil {
			return done, cli.Usagef("--bump-revision: %w", err)
		}
	}
	state, err := c.Store()
	if err != nil {
		return done, fmt.Errorf("%s: %w", path, err)
	}
	done = restoredSnapshot{
		File: path, DataDir: cmp.Or(r.dataDir, r.name+".tenure"), Name: r.name, Revision: c.Revision, Keys: c.Keys, Leases: c.Leases, Orphans: c.Orphans,
	}
	id, err := node.Restore(node.Restoration{
		DataDir: done.DataDir, LogDir: r.logDir, Name: r.name, Peers: peers, ClusterToken: r.token, State: state, Users: c.Users(), Digest: digest, Logger: slog.New(slog.DiscardHandler),
	})
	done.Cluster = hexID(id)
	if errors.Is(err, node.ErrNotEmpty) {
		return done, cli.Exit(cli.ExitCannotMake, err)
	}
	return done, err
}

// isBare reports whether a file has no checksum.
func isBare(err error) bool { return errors.Is(err, backup.ErrNoSum) }
