package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// clusterStatus is what `tenure status` prints.
type clusterStatus struct {
	Cluster string         `json:"cluster"`
	Leader  string         `json:"leader"` // name, or id if it has none; empty if there is none
	Term    uint64         `json:"term"`
	Leases  int            `json:"leases"`
	Members []memberStatus `json:"members"`
	// ReadLeases is absent if the servers have none, or did not tell.
	ReadLeases *readLeases `json:"read_leases,omitempty"`
	// Jobs are periodic ones that were run. More of them may be beyond the keys that were looked at.
	Jobs     []statusJob `json:"jobs,omitempty"`
	MoreJobs bool        `json:"more_jobs,omitempty"`
}

type memberStatus struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	URLs   []string `json:"urls"`
	Leader bool     `json:"leader"`
	// OldLeader: it takes itself for the leader, in a term that others have left behind.
	OldLeader bool     `json:"old_leader,omitempty"`
	Learner   bool     `json:"learner"`
	Version   string   `json:"version,omitempty"`
	Revision  int64    `json:"revision"`
	Index     uint64   `json:"index"` // applied
	Lag       uint64   `json:"lag"`   // log entries behind the foremost member
	Bytes     int64    `json:"bytes"`
	Errors    []string `json:"errors,omitempty"`
}

func statusCommand() *cobra.Command {
	var at place
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the server's members, their leader, leases, lag and local reads",
		Long: `Asks every member of the cluster that --at names for its state. LAG is how many log
entries a member has yet to apply, counted from the foremost one. A member
that does not answer is listed with the reason; the exit code is 69 if no member
answers or there is no leader. An old leader takes itself for the leader, in a term that
others have left behind.

HOLDS is what a member reads by itself at this time, and LOCAL how many of its
linearizable READS it answered so since it started; the line "read leases" says what
is held up for that, and by whom. tenure read-lease shows more, and changes it.

The last runs of periodic jobs (tenure lock --every) are shown if there are any among the
first 10,000 keys.`,
		Example: "  tenure status\n  tenure status --at etcd://10.0.0.1:2379 -o json\n  tenure status --user root   # asks for the password of root",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := at.ready(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			s, err := askStatus(ctx, at)
			if err != nil {
				return cli.Otherwise(cli.ExitUnavailable, err)
			}
			if err := o.Print(cmd.OutOrStdout(), s, func() { s.table(cmd.OutOrStdout()) }); err != nil {
				return err
			}
			if s.Leader == "" {
				return cli.Exit(cli.ExitUnavailable, fmt.Errorf("there is no leader: a majority of the %d members must be up and reach each other", len(s.Members)))
			}
			return nil
		},
	}
	serverFlag(cmd.Flags(), &at)
	o.Register(cmd)
	return cmd
}

func askStatus(ctx context.Context, at place) (clusterStatus, error) {
	var s clusterStatus
	client, err := serverAt(ctx, at)
	if err != nil {
		return s, err
	}
	defer client.Close()
	list, err := listMembers(ctx, client)
	if refused := at.refused(err); refused != nil {
		return s, refused
	}
	if err != nil {
		return s, fmt.Errorf("no member answers at %s: %w; check the address, and that the server runs", at, err)
	}
	s.Cluster = fmt.Sprintf("%x", list.Header.ClusterId)
	members := newestMembers(ctx, client, list.Members)
	s.Members = make([]memberStatus, len(members))
	answers, errs := askMembers(ctx, client, members)
	for i, m := range members {
		s.Members[i] = memberStatus{ID: hexID(m.ID), Name: m.Name, URLs: m.ClientURLs, Learner: m.IsLearner}
		if errs[i] != nil {
			s.Members[i].Errors = []string{errs[i].Error()}
		}
	}
	s.fill(answers)
	var there []*pb.Member
	for i, m := range members {
		if answers[i] != nil {
			there = append(there, m)
		}
	}
	if leases, err := askReadLeases(ctx, client, members, there); err == nil {
		s.ReadLeases = leases
	}
	ask, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if leases, err := client.Leases(ask); err == nil {
		s.Leases = len(leases.Leases)
	}
	if jobs, more, err := askJobs(ctx, client); err == nil {
		s.addJobs(jobs, more)
	}
	return s, nil
}

// serverAt makes a client of the servers that --at names. With a user it logs in.
func serverAt(ctx context.Context, at place) (*clientv3.Client, error) {
	cfg, err := at.config()
	if err != nil {
		return nil, err
	}
	return clientOf(ctx, at, cfg)
}

func clientOf(ctx context.Context, at place, cfg etcd.Config) (*clientv3.Client, error) {
	client, err := etcd.Dial(ctx, cfg)
	if err != nil {
		if refused := at.refused(err); refused != nil {
			return nil, refused
		}
		return nil, cli.Exit(cli.ExitUnavailable, fmt.Errorf("user %s cannot log in at %s: %w; check the address, and that the server runs", cfg.Username, at, err))
	}
	return client, nil
}

// listMembers is from a member's own memory: it answers without a leader, too.
func listMembers(ctx context.Context, client *clientv3.Client) (*clientv3.MemberListResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return client.MemberList(ctx, clientv3.WithSerializable())
}

// newestMembers returns the members as the leader has them, or else those that are known: the member that
// was asked may be behind, most of all one that joins.
func newestMembers(ctx context.Context, client *clientv3.Client, known []*pb.Member) []*pb.Member {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if list, err := client.MemberList(ctx); err == nil {
		return list.Members
	}
	return known // without a leader there is nothing newer to know
}

// askMembers asks all members for their status at the same time. Of each it returns the answer, or why there
// is none.
func askMembers(ctx context.Context, client *clientv3.Client, members []*pb.Member) ([]*clientv3.StatusResponse, []error) {
	answers, errs := make([]*clientv3.StatusResponse, len(members)), make([]error, len(members))
	var asks errgroup.Group
	for i, m := range members {
		asks.Go(func() error {
			answers[i], errs[i] = askMember(ctx, client, m.ClientURLs)
			return nil
		})
	}
	_ = asks.Wait()
	return answers, errs
}

func askMember(ctx context.Context, client *clientv3.Client, urls []string) (*clientv3.StatusResponse, error) {
	if len(urls) == 0 {
		return nil, fmt.Errorf("it has not started yet: it has no client URL")
	}
	var last error
	for _, url := range urls {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		got, err := askURL(ctx, client, url)
		cancel()
		if err == nil {
			return got, nil
		}
		why := status.Convert(err).Message()
		if status.Code(err) == codes.DeadlineExceeded {
			why = "nothing came within 2s"
		}
		last = fmt.Errorf("no answer from %s: %s", url, why)
	}
	return nil, last
}

// askURL asks once: client.Status would try again for as long as it may where nobody listens.
func askURL(ctx context.Context, client *clientv3.Client, url string) (*clientv3.StatusResponse, error) {
	conn, err := client.Dial(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	got, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	return (*clientv3.StatusResponse)(got), err
}

// fill adds the members' answers, nil for those that gave none.
func (s *clusterStatus) fill(answers []*clientv3.StatusResponse) {
	var foremost uint64
	for _, a := range answers {
		if a != nil {
			foremost = max(foremost, a.RaftIndex)
		}
	}
	for i, a := range answers {
		if a == nil {
			continue
		}
		m := &s.Members[i]
		m.Leader = a.Leader != 0 && hexID(a.Leader) == m.ID
		m.Version, m.Revision, m.Index, m.Bytes = a.Version, a.Header.Revision, a.RaftAppliedIndex, a.DbSize
		m.Lag = foremost - min(foremost, a.RaftAppliedIndex)
		m.Errors = append(m.Errors, a.Errors...)
		if a.Leader != 0 && a.RaftTerm >= s.Term {
			s.Term = a.RaftTerm
			s.Leader = s.nameOf(hexID(a.Leader))
		}
	}
	for i, a := range answers {
		if m := &s.Members[i]; m.Leader && a.RaftTerm < s.Term {
			m.Leader, m.OldLeader = false, true
		}
	}
}

func (s *clusterStatus) nameOf(id string) string {
	for _, m := range s.Members {
		if m.ID == id {
			return cmp.Or(m.Name, id)
		}
	}
	return id
}

func (s clusterStatus) table(w io.Writer) {
	fmt.Fprintf(w, "cluster %s, leader %s, term %d, %d leases\n", s.Cluster, cmp.Or(s.Leader, "none"), s.Term, s.Leases)
	columns := "NAME\tID\tROLE\tVERSION\tREVISION\tAPPLIED\tLAG\tBYTES\t"
	if s.ReadLeases != nil {
		fmt.Fprintln(w, s.ReadLeases.summary())
		columns += "HOLDS\tREADS\tLOCAL\t"
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, columns+"URLS\tERRORS")
	for i, m := range s.Members {
		role := "follower"
		switch {
		case m.Leader:
			role = "leader"
		case m.OldLeader:
			role = "old leader"
		case m.Learner:
			role = "learner"
		case m.Version == "":
			role = "?"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t", m.Name, m.ID, role, m.Version, m.Revision, m.Index, m.Lag, m.Bytes)
		if s.ReadLeases != nil {
			held := s.ReadLeases.Members[i]
			fmt.Fprintf(tw, "%s\t%s\t", cmp.Or(held.Holds, "-"), held.Reads.cells())
		}
		fmt.Fprintf(tw, "%s\t%s\n", strings.Join(m.URLs, ","), strings.Join(m.Errors, "; "))
	}
	tw.Flush()
	s.jobTable(w)
}
