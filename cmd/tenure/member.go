package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/cli"
)

func memberCommand() *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use:   "member",
		Short: "List the members of the server, add and remove them, and choose the leader",
		Long: `Shows and changes the members of the cluster that --at names, while it serves. A member is
named by its name, its ID or its peer URL.

A majority of the voters has to be up, or the cluster serves nothing. A change after which
that would not be so is refused unless --yes is given. Members add, remove and promote one
at a time.

To replace a member whose disk was lost: remove it, add it again as a learner, start the
command that add prints with an empty directory, and promote it once it has caught up.`,
		Example: `  tenure member list
  tenure member remove c
  tenure member add c --learner --peer-urls http://10.0.0.3:2380
  tenure member promote c
  tenure member update c --peer-urls http://10.0.0.7:2380
  tenure member move-leader b`,
		Args: cobra.NoArgs,
	}
	serverFlag(cmd.PersistentFlags(), &at)
	cmd.AddCommand(
		memberListCommand(&at), memberAddCommand(&at), memberRemoveCommand(&at),
		memberPromoteCommand(&at), memberUpdateCommand(&at), memberMoveLeaderCommand(&at),
	)
	return cmd
}

// cluster is what the members of a cluster tell of themselves.
type cluster struct {
	Cluster string         `json:"cluster"`
	Leader  string         `json:"leader"` // name, or id if it has none; empty if there is none
	Members []listedMember `json:"members"`
}

type listedMember struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"` // empty until it has started
	PeerURLs   []string `json:"peer_urls"`
	ClientURLs []string `json:"client_urls"`
	Learner    bool     `json:"learner"`
	Leader     bool     `json:"leader"`
	Reachable  bool     `json:"reachable"`
	Applied    uint64   `json:"applied"` // index of the log
	Error      string   `json:"error,omitempty"`

	id uint64
}

// String is the member's name, or its ID before it has started.
func (m listedMember) String() string {
	if m.Name == "" {
		return m.ID
	}
	return m.Name
}

// withCluster runs one short command with a client of the cluster, whose members were asked.
func withCluster(at place, f func(context.Context, *clientv3.Client, cluster) error) error {
	return withMembers(at, func(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
		members = newestMembers(ctx, client, members)
		answers, errs := askMembers(ctx, client, members)
		c := clusterOf(members, answers, errs)
		if l, err := c.leader(); err == nil && l.Reachable {
			client.SetEndpoints(l.ClientURLs...) // the member that was asked may be about to stop, and leave a change open
		}
		return f(ctx, client, c)
	})
}

// clusterOf puts the members' answers together, nil for those that gave none. The leader is that of the
// latest term that anybody knows of: one that was cut off may think that it leads still.
func clusterOf(members []*pb.Member, answers []*clientv3.StatusResponse, errs []error) (c cluster) {
	var leader, term uint64
	for i, m := range members {
		l := listedMember{ID: hexID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner, id: m.ID}
		if a := answers[i]; a != nil {
			c.Cluster = hexID(a.Header.GetClusterId())
			l.Reachable, l.Applied = true, a.RaftAppliedIndex
			if a.Leader != 0 && a.RaftTerm >= term {
				leader, term = a.Leader, a.RaftTerm
			}
		} else if errs[i] != nil {
			l.Error = errs[i].Error()
		}
		c.Members = append(c.Members, l)
	}
	for i := range c.Members {
		if m := &c.Members[i]; leader != 0 && m.id == leader {
			m.Leader, c.Leader = true, m.String()
		}
	}
	return c
}

// find returns the member of a name, an ID or a peer URL.
func (c cluster) find(which string) (listedMember, error) {
	var found []listedMember
	for _, m := range c.Members {
		if m.Name == which || m.ID == strings.ToLower(which) || slices.Contains(m.PeerURLs, which) {
			found = append(found, m)
		}
	}
	switch {
	case which == "":
		return listedMember{}, errors.New("which member? give its name or its ID, as `tenure member list` shows them")
	case len(found) == 0:
		err := fmt.Errorf("there is no member %s; the members are %s", which, c.names())
		if slices.ContainsFunc(c.Members, func(m listedMember) bool { return m.Name == "" }) {
			err = notYet{fmt.Errorf("%w; one that was added and has not started is known by its ID and its peer URL only: start it with the command that `tenure member add` has printed", err), "started"}
		}
		return listedMember{}, err
	case len(found) > 1:
		return listedMember{}, fmt.Errorf("%d members are called %s: give the ID of one, as `tenure member list` shows it", len(found), which)
	}
	return found[0], nil
}

func (c cluster) names() string {
	var names []string
	for _, m := range c.Members {
		names = append(names, m.String())
	}
	return strings.Join(names, ", ")
}

// leader returns the member that leads, without which nothing can be changed.
func (c cluster) leader() (listedMember, error) {
	for _, m := range c.Members {
		if m.Leader {
			return m, nil
		}
	}
	v := c.voting()
	return listedMember{}, cli.Exit(cli.ExitUnavailable, fmt.Errorf("there is no leader, so nothing can be changed: %d of %d voters answer, and %d must be up and reach each other; start those that are down", v.up, v.voters, v.majority()))
}

// completeMembers completes the first argument with members that are known.
func completeMembers(at *place) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			_ = withMembersFor(completionLimit, at.unasked(), func(_ context.Context, _ *clientv3.Client, members []*pb.Member) error {
				for _, m := range members {
					names = append(names, listedMember{Name: m.Name, ID: hexID(m.ID)}.String())
				}
				return nil
			})
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
