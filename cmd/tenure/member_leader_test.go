package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/cli"
)

// leaderless is a member that knows of no leader, and changes whatever it is asked to.
type leaderless struct {
	promoting
	asked *[]string
}

func (m leaderless) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	got, err := m.promoting.Status(ctx, r)
	got.Leader = 0
	return got, err
}

func (m leaderless) MemberAdd(context.Context, *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	*m.asked = append(*m.asked, "add")
	return &pb.MemberAddResponse{Member: &pb.Member{}}, nil
}

func (m leaderless) MemberRemove(context.Context, *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	*m.asked = append(*m.asked, "remove")
	return &pb.MemberRemoveResponse{}, nil
}

func (m leaderless) MemberUpdate(context.Context, *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	*m.asked = append(*m.asked, "update")
	return &pb.MemberUpdateResponse{}, nil
}

func (m leaderless) MemberPromote(context.Context, *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	*m.asked = append(*m.asked, "promote")
	return &pb.MemberPromoteResponse{}, nil
}

func (m leaderless) MoveLeader(context.Context, *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	*m.asked = append(*m.asked, "move-leader")
	return &pb.MoveLeaderResponse{}, nil
}

// Without a leader no change is asked for, not with --yes either: it would wait, and its outcome would not be known.
func TestNothingIsChangedWithoutALeader(t *testing.T) {
	l, g := listenLocal(t), grpc.NewServer()
	var asked []string
	m := leaderless{promoting{stockMember{url: "http://" + l.Addr().String()}}, &asked}
	pb.RegisterClusterServer(g, m)
	pb.RegisterMaintenanceServer(g, m)
	serveUntilEnd(t, g, l)
	for _, args := range []string{
		"add e --learner --peer-urls http://h:1", "add e --yes --peer-urls http://h:1", "remove d", "remove stock --yes", "promote d --yes --wait 0", "update d --peer-urls http://h:1", "move-leader stock",
	} {
		out, err := command(t, append([]string{"member", "--at", "etcd://" + l.Addr().String()}, strings.Fields(args)...)...)
		wantExit(t, err, cli.ExitUnavailable)
		if want := "there is no leader, so nothing can be changed: 1 of 1 voters answer, and 1 must be up and reach each other"; !strings.HasPrefix(fmt.Sprint(err), want) || out != "" || len(asked) > 0 {
			t.Errorf("member %s: %v, printed %q, asked for %q; want %q, and nothing asked for", args, err, out, asked, want)
		}
	}
}

// The report of a change that was made names the member: by its ID while it has no name.
func TestWhatAChangeSays(t *testing.T) {
	l, g := listenLocal(t), grpc.NewServer()
	var asked []string
	m := changeable{leaderless{promoting{stockMember{url: "http://" + l.Addr().String()}}, &asked}}
	pb.RegisterClusterServer(g, m)
	pb.RegisterMaintenanceServer(g, m)
	serveUntilEnd(t, g, l)
	for args, want := range map[string]string{
		"remove d":                                "d was removed; its directory is of no use any more\n",
		"remove 3":                                "3 was removed; its directory is of no use any more\n",
		"update 3 --peer-urls http://h:1":         "the others look for 3 at http://h:1 now\n",
		"promote d --yes --wait 0":                "d votes now\n",
		"move-leader stock":                       "stock leads now\n",
		"remove d -o json":                        `"change": "removed"`,
		"update 3 --peer-urls http://h:1 -o json": `"change": "updated"`,
		"promote d --yes --wait 0 -o json":        `"change": "promoted"`,
		"move-leader stock -o json":               `"change": "leader"`,
		"remove 3 -o json":                        "{\n  \"id\": \"3\",\n  \"name\": \"\",",
	} {
		out, err := command(t, append([]string{"member", "--at", "etcd://" + l.Addr().String()}, strings.Fields(args)...)...)
		if json := strings.Contains(args, "json"); err != nil || !json && out != want || json && !strings.Contains(out, want) {
			t.Errorf("member %s says %q, %v; want %q", args, out, err, want)
		}
	}
	if slices.Contains(asked, "move-leader") {
		t.Errorf("the member leads already, and asked for are %q", asked)
	}
}

// changeable has a leader, and a learner without a name.
type changeable struct{ leaderless }

func (m changeable) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	return m.promoting.Status(ctx, r)
}

func (m changeable) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	got, err := m.promoting.MemberList(ctx, r)
	got.Members = append(got.Members, &pb.Member{ID: 3, IsLearner: true})
	return got, err
}

// partial has a leader, and a voter that does not answer.
type partial struct{ leaderless }

func (m partial) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	return m.promoting.Status(ctx, r)
}

func (m partial) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	got, err := m.promoting.MemberList(ctx, r)
	got.Members = append(got.Members, &pb.Member{ID: 4, Name: "down", ClientURLs: []string{"http://127.0.0.1:1"}})
	return got, err
}

// Leadership goes to a member that votes and answers, and changes that make no sense are not asked for.
func TestChangesThatAreNotAskedFor(t *testing.T) {
	l, g := listenLocal(t), grpc.NewServer()
	var asked []string
	m := partial{leaderless{promoting{stockMember{url: "http://" + l.Addr().String()}}, &asked}}
	pb.RegisterClusterServer(g, m)
	pb.RegisterMaintenanceServer(g, m)
	serveUntilEnd(t, g, l)
	for args, want := range map[string]string{
		"move-leader down":      "down does not answer, and would not take leadership: start it first",
		"move-leader d":         "d has no vote and cannot lead: promote it first",
		"promote down --wait 0": "down votes already",
		"remove stock":          "after the removal of stock only 0 of 1 voters would answer, and 1 are needed",
		"add stock --learner --peer-urls http://h:1": "the member 1 is called stock already: remove it first, or choose another name",
		"add e --peer-urls http://h:1":               "after the vote of e only 1 of 3 voters would answer, and 2 are needed",
		"remove nosuch":                              "there is no member nosuch; the members are stock, d, down",
	} {
		out, err := command(t, append([]string{"member", "--at", "etcd://" + l.Addr().String()}, strings.Fields(args)...)...)
		if !strings.HasPrefix(fmt.Sprint(err), want) || out != "" || len(asked) > 0 {
			t.Errorf("member %s: %v, printed %q, asked for %q; want %q, and nothing asked for", args, err, out, asked, want)
		}
	}
	for _, url := range []string{"http://0.0.0.0:1", "h:1", "http://h", "http://h:1/x", "ftp://h:1"} {
		for _, args := range [][]string{{"update", "down"}, {"add", "e"}} {
			_, err := command(t, append([]string{"member", "--at", "etcd://" + l.Addr().String(), "--peer-urls", url}, args...)...)
			if wantRefused(t, err, url); len(asked) > 0 {
				t.Errorf("member %q to %s is asked for", args, url)
			}
		}
	}
}
