package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/cli"
)

func memberListCommand(at *place) *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the members, their addresses, and which of them answer",
		Long: `Lists the members of the cluster. ROLE is leader, voter or learner; a learner copies the log
and has no vote. ANSWERS says whether the member answers here, at one of its client URLs. A
member that was added and has not started yet has no name and no client URL. APPLIED is up
to which entry of the log the member is.`,
		Example: "  tenure member list\n  tenure member list --at etcd://10.0.0.1:2379,10.0.0.2:2379 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCluster(*at, func(_ context.Context, _ *clientv3.Client, c cluster) error {
				return o.Print(cmd.OutOrStdout(), c, func() { c.table(cmd.OutOrStdout()) })
			})
		},
	}
	o.Register(cmd)
	return cmd
}

func (c cluster) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tID\tROLE\tANSWERS\tAPPLIED\tPEER URLS\tCLIENT URLS")
	for _, m := range c.Members {
		role, answers, applied := "voter", "no", "-"
		switch {
		case m.Leader:
			role = "leader"
		case m.Learner:
			role = "learner"
		}
		switch {
		case m.Reachable:
			answers, applied = "yes", fmt.Sprint(m.Applied)
		case len(m.ClientURLs) == 0:
			answers = "not started"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(m.Name, "-"), m.ID, role, answers, applied,
			strings.Join(m.PeerURLs, ","), cmp.Or(strings.Join(m.ClientURLs, ","), "-"))
	}
	tw.Flush()
}
