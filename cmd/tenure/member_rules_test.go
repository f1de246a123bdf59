package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/cli"
)

// A change that leaves too few voters that answer is refused unless it is meant, and the loss of the last one
// to spare is told.
func TestVotersThatAreLeft(t *testing.T) {
	for _, tt := range []struct {
		after   voting
		refused bool
		remark  string
	}{
		{voting{3, 3}, false, ""},
		{voting{3, 2}, false, "2 of 3 voters answer, and all of these are needed"},
		{voting{3, 1}, true, "1 of 3 voters answer, and 2 are needed"},
		{voting{2, 2}, false, "2 of 2 voters answer, and all of these are needed"},
		{voting{2, 1}, true, "1 of 2 voters answer, and 2 are needed"},
		{voting{1, 1}, false, ""},
		{voting{1, 0}, true, "0 of 1 voters answer, and 1 are needed"},
		{voting{4, 3}, false, "3 of 4 voters answer, and all of these are needed"},
		{voting{5, 4}, false, ""},
	} {
		remark, err := tt.after.allow("the removal of c", false, "start b")
		if (err != nil) != tt.refused || err != nil && !strings.HasSuffix(err.Error(), "; start b, or repeat it with --yes") || err == nil && !beginsOrBoth(remark, tt.remark) {
			t.Errorf("%+v are left: %q, %v; want %q, refused: %v", tt.after, remark, err, tt.remark, tt.refused)
		}
		if remark, err := tt.after.allow("the removal of c", true, "start b"); err != nil || !beginsOrBoth(remark, tt.remark) {
			t.Errorf("%+v are left and this is meant: %q, %v; want %q", tt.after, remark, err, tt.remark)
		}
	}
}

// beginsOrBoth reports whether a text begins as it should, or is empty as it should be.
func beginsOrBoth(got, want string) bool {
	return strings.HasPrefix(got, want) && (got == "") == (want == "")
}

// Only members that vote count, and of these only those that answer are up.
func TestVotersOfACluster(t *testing.T) {
	c := cluster{Members: []listedMember{{ID: "a", Reachable: true}, {ID: "b"}, {ID: "c", Reachable: true, Learner: true}, {ID: "d"}}}
	if got := c.voting(); got != (voting{3, 1}) {
		t.Errorf("one learner, one voter that answers and two that do not are %+v", got)
	}
	if got := c.voting().without(c.Members[0]); got != (voting{2, 0}) {
		t.Errorf("without the one that answers they are %+v", got)
	}
	if got := c.voting().without(c.Members[1]); got != (voting{2, 1}) {
		t.Errorf("without one that does not they are %+v", got)
	}
}

// The leader of the latest term counts, whatever one that was cut off thinks. A member that does not answer
// is listed with the reason.
func TestMembersThatDoNotAgree(t *testing.T) {
	answer := func(leader, term, applied uint64) *clientv3.StatusResponse {
		return &clientv3.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 0xc1}, Leader: leader, RaftTerm: term, RaftIndex: applied + 5, RaftAppliedIndex: applied}
	}
	members := []*pb.Member{
		{ID: 0xb, Name: "b", PeerURLs: []string{"http://b:1"}, ClientURLs: []string{"http://b:2"}},
		{ID: 0xa, Name: "a", PeerURLs: []string{"http://a:1"}, ClientURLs: []string{"http://a:2"}},
		{ID: 0xd, Name: "d", PeerURLs: []string{"http://d:1"}, ClientURLs: []string{"http://d:2"}},
		{ID: 0xe, PeerURLs: []string{"http://e:1"}, IsLearner: true},
	}
	c := clusterOf(members,
		[]*clientv3.StatusResponse{answer(0xb, 5, 40), answer(0xa, 4, 30), nil, nil}, []error{nil, nil, errors.New("refused"), errors.New("not started")})
	if c.Cluster != "c1" || c.Leader != "b" || !c.Members[0].Leader || c.Members[1].Leader || c.Members[0].Applied != 40 || c.Members[2].Error != "refused" {
		t.Errorf("put together is %+v", c)
	}
	var b strings.Builder
	c.table(&b)
	got := strings.Split(b.String(), "\n")
	for i, want := range []string{
		"NAME ID ROLE ANSWERS APPLIED PEER URLS CLIENT URLS",
		"b b leader yes 40 http://b:1 http://b:2", "a a voter yes 30 http://a:1 http://a:2",
		"d d voter no - http://d:1 http://d:2", "- e learner not started - http://e:1 -",
	} {
		if strings.Join(strings.Fields(got[i]), " ") != want {
			t.Errorf("line %d is %q, want %q", i, got[i], want)
		}
	}
	if c := clusterOf(members, []*clientv3.StatusResponse{answer(0xb, 5, 40), answer(0, 6, 30), nil, nil}, make([]error, 4)); c.Leader != "b" {
		t.Errorf("a member that knows no leader is in a later term, and listed is %q as the leader, want b", c.Leader)
	}
	if _, err := clusterOf(members, make([]*clientv3.StatusResponse, 4), make([]error, 4)).leader(); err == nil {
		t.Error("nobody answers, and somebody leads")
	} else {
		wantExit(t, err, cli.ExitUnavailable)
	}
}

// A member is known by its name, its ID and its peer URL. A word that fits two members is refused.
func TestWhichMember(t *testing.T) {
	c := cluster{Members: []listedMember{
		{ID: "a1", Name: "a", PeerURLs: []string{"http://a:1"}}, {ID: "b1", Name: "twin"}, {ID: "c1", Name: "twin"}, {ID: "d1"}, {ID: "e1", Name: "d1"},
	}}
	for which, want := range map[string]string{"a": "a1", "A1": "a1", "http://a:1": "a1", "b1": "b1", "twin": "", "": "", "x": "", "d1": ""} {
		got, err := c.find(which)
		if got.ID != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v; want %q", which, got.ID, err, want)
		}
	}
	if _, err := c.find("x"); err == nil || err.Error() != "there is no member x; the members are a, twin, twin, d1, d1; one that was added and has not started is known by its ID and its peer URL only: start it with the command that `tenure member add` has printed" {
		t.Errorf("an unknown member: %v", err)
	}
	c.Members = c.Members[:2]
	if _, err := c.find("x"); err == nil || err.Error() != "there is no member x; the members are a, twin" {
		t.Errorf("an unknown member, and all have started: %v", err)
	}
}

// The command that starts a new member names all others, each once, and tells clients where they reach it.
func TestHowANewMemberStarts(t *testing.T) {
	c := cluster{Members: []listedMember{
		{ID: "a1", Name: "a", PeerURLs: []string{"https://a:1"}, ClientURLs: []string{"https://a:2379"}},
		{ID: "b1", Name: "a", PeerURLs: []string{"https://b:1"}}, {ID: "c1", PeerURLs: []string{"https://c:1", "https://c:2"}},
	}}
	want := "tenure serve --name d --initial-cluster-state existing --listen-peer-urls https://[::1]:7 --initial-advertise-peer-urls https://[::1]:7 " +
		"--listen-client-urls https://[::1]:2379 --initial-cluster a=https://a:1,b1=https://b:1,c1=https://c:1,c1=https://c:2,d=https://[::1]:7"
	if got := strings.Join(c.startCommand("d", "https://[::1]:7", nil), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := c.startCommand("d", "http://d:7", []string{"http://x:1", "http://y:2"}); got[11] != "http://x:1,http://y:2" {
		t.Errorf("clients reach it at %q, want where they were told", got[11])
	}
	c.Members[0].ClientURLs = []string{"https://a:2379", "http://localhost:2379"}
	if got := c.clientURL("http://d:7"); got != "https://d:2379" {
		t.Errorf("where others have TLS but for their own machines, clients reach it at %s", got)
	}
	c.Members[0].ClientURLs = []string{"http://a:2379"}
	if got := c.clientURL("http://d:7"); got != "http://d:2379" {
		t.Errorf("where others have no TLS, clients reach it at %s", got)
	}
	var out, words strings.Builder
	addedMember{ID: "d1", Name: "my d", Learner: true, Command: []string{"tenure", "serve", "--name", "my d", "it's"}}.print(&out, &words)
	if out.String() != "tenure serve --name 'my d' 'it'\\''s'\n" || !strings.Contains(words.String(), "tenure member promote 'my d'") {
		t.Errorf("printed is %q, and %q", &out, &words)
	}
}

// Each refusal of the server's is a sentence that says what to do. A change without an answer may have been made.
func TestWhyAMemberIsNotChanged(t *testing.T) {
	for says, err := range map[string]error{
		"no member any more": rpctypes.ErrMemberNotFound, "it is a member already": rpctypes.ErrMemberExist, "another member is at this peer URL": rpctypes.ErrPeerURLExist,
		"want one peer URL": rpctypes.ErrMemberBadURLs, "it votes already": rpctypes.ErrMemberNotLearner, "it has not caught up": rpctypes.ErrMemberLearnerNotReady,
		"promote or remove one first": rpctypes.ErrTooManyLearners, "the last voter": rpctypes.ErrMemberNotEnoughStarted, "start those that are down": rpctypes.ErrUnhealthy,
		"leadership has just gone elsewhere": rpctypes.ErrNotLeader, "promote it first": rpctypes.ErrBadLeaderTransferee,
	} {
		wantCannot(t, memberTrouble("add d", err), "cannot add d: ")
		wantCannot(t, memberTrouble("add d", err), says)
	}
	for _, code := range []codes.Code{codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition} {
		wantCannot(t, memberTrouble("add d", status.Error(code, "odd")), "cannot add d: ")
		wantCannot(t, memberTrouble("add d", rpctypes.Error(status.Error(code, "etcdserver: odd"))), "cannot add d: ")
	}
	wantCannot(t, memberTrouble("add d", status.Error(codes.Unimplemented, "odd")), "older version")
	for _, err := range []error{
		context.DeadlineExceeded, fmt.Errorf("x: %w", context.DeadlineExceeded), rpctypes.ErrTimeout, rpctypes.ErrNoLeader, rpctypes.ErrTimeoutDueToLeaderFail, errors.New("odd"),
	} {
		got := memberTrouble("add d", err)
		wantExit(t, got, cli.ExitUnavailable)
		if !strings.HasPrefix(got.Error(), "cannot add d: ") || !strings.HasSuffix(got.Error(), "; whether it was done is not known: `tenure member list` shows it") || strings.Contains(got.Error(), "context deadline") {
			t.Errorf("%v is told as %q", err, got)
		}
	}
}

// wantCannot wants a refusal of the server's: it is neither wrong usage nor silence.
func wantCannot(t *testing.T, err error, says string) {
	t.Helper()
	if errors.As(err, new(cli.ExitError)) || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want %q and no exit code of its own", err, says)
	}
}

// Command lines that make no sense are refused before anything is asked for.
func TestMemberCommandLines(t *testing.T) {
	for says, args := range map[string][]string{
		"write: tenure member add NAME --peer-urls URL": {"add"},
		"write: tenure member remove MEMBER":            {"remove", "a", "b"},
		"want one without commas":                       {"add", "a,b", "--peer-urls", "http://a:1"},
		"at which URL do the others reach d?":           {"add", "d"},
		`--peer-urls "a:1": want http://host:port`:      {"add", "d", "--peer-urls", "a:1"},
		`--client-urls "http://a": want http://host`:    {"add", "d", "--peer-urls", "http://a:1", "--client-urls", "http://a"},
		"at which URL do the others reach c?":           {"update", "c"},
		`--peer-urls "x": want http://host:port`:        {"update", "c", "--peer-urls", "x"},
		"and none that others can dial":                 {"add", "d", "--peer-urls", "http://0.0.0.0:2380"},
	} {
		_, err := command(t, append([]string{"member"}, args...)...)
		wantRefused(t, err, says)
	}
}

// The members of a cluster are offered for the first word that follows a command, and no files. A shell waits a second for them.
func TestMembersAreCompleted(t *testing.T) {
	c, addrs := startHeard(t)
	c.limit = completionLimit
	at := place{url: "etcd://" + addrs[0]}
	for words, want := range map[string][]string{"": {"lead", "other", "learn", "down", "e5"}, "other": nil} {
		var names []string
		var directive cobra.ShellCompDirective
		for range 20 { // the second may be over before the members answer, beside much else
			if names, directive = completeMembers(&at)(nil, strings.Fields(words), ""); names != nil || want == nil {
				break
			}
		}
		c.mu.Lock()
		if c.late != nil {
			t.Errorf("to complete the name of a member, %q may take more than a second", c.late)
		}
		c.mu.Unlock()
		if !slices.Equal(names, want) || directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("behind %q offered are %q, %v; want %q, and no files", words, names, directive, want)
		}
	}
}

// A URL of a member is a scheme, a host and a port, and nothing else.
func TestURLsByWhichMembersAreReached(t *testing.T) {
	for url, says := range map[string]string{
		"http://a:1": "", "https://a:1": "", "http://[::1]:1": "", "https://127.0.0.1:1": "",
		"a:1": "want http://host:port", "ftp://a:1": "want http://host:port", "http://a": "want http://host:port", "http://:1": "want http://host:port",
		"http://a:1/": "want http://host:port", "https://a:1/x": "want http://host:port", "http://a:x": "want http://host:port", "": "want http://host:port",
		"http://[::]:1": "none that others can dial",
	} {
		if err := reachable("--flag", []string{"http://b:1", url}); says == "" && err != nil {
			t.Errorf("%q is refused: %v", url, err)
		} else if says != "" {
			wantRefused(t, err, says)
		}
	}
}

// memberBehind knows of a change only if it is asked for the newest members, which takes a leader.
type memberBehind struct {
	stockMember
	leader bool
}

func (m memberBehind) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	got, err := m.stockMember.MemberList(ctx, nil)
	switch {
	case !r.Linearizable:
		got.Members = append(got.Members, &pb.Member{ID: 2, Name: "removed"})
	case !m.leader:
		return nil, rpctypes.ErrGRPCNoLeader
	}
	return got, err
}

// Members are listed as of now, and where that cannot be known as a member knows them.
func TestMembersAsOfNow(t *testing.T) {
	for leader, want := range map[bool]int{true: 1, false: 2} {
		l := listenLocal(t)
		g := grpc.NewServer()
		m := memberBehind{stockMember{url: "http://" + l.Addr().String()}, leader}
		pb.RegisterClusterServer(g, m)
		pb.RegisterMaintenanceServer(g, m)
		serveUntilEnd(t, g, l)
		for _, words := range []string{"member list", "status"} {
			var got struct {
				Leader  string
				Members []any
			}
			out, err := command(t, append(strings.Fields(words), "-o", "json", "--at", "etcd://"+l.Addr().String())...)
			if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || len(got.Members) != want || got.Leader != "stock" {
				t.Errorf("%s: with a leader: %v: listed is %+v, %v; want %d members", words, leader, got, err, want)
			}
		}
	}
}

// promoting is a member that has a learner, which does not answer, and promotes whichever it is asked to.
type promoting struct{ stockMember }

func (m promoting) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	got, err := m.stockMember.MemberList(ctx, r)
	got.Members = append(got.Members, &pb.Member{ID: 2, Name: "d", IsLearner: true})
	return got, err
}

func (promoting) MemberPromote(context.Context, *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return &pb.MemberPromoteResponse{}, nil
}

// A member that is promoted counts as a voter from then on: one that does not answer may stop the cluster.
func TestThePromotedCounts(t *testing.T) {
	l := listenLocal(t)
	g := grpc.NewServer()
	m := promoting{stockMember{url: "http://" + l.Addr().String()}}
	pb.RegisterClusterServer(g, m)
	pb.RegisterMaintenanceServer(g, m)
	serveUntilEnd(t, g, l)
	for args, want := range map[string]string{
		"promote d":       "after the promotion of d only 1 of 2 voters would answer, and 2 are needed",
		"promote d --yes": "1 of 2 voters answer, and 2 are needed",
	} {
		code, out, errs := ran(t, append([]string{"member", "--at", "etcd://" + l.Addr().String()}, strings.Fields(args)...)...)
		if yes := strings.Contains(args, "--yes"); (code == 0) != yes || (out == "d votes now\n") != yes || !strings.HasPrefix(errs, "tenure: "+want) {
			t.Errorf("%s ends with %d, says %q and %q; want %q", args, code, out, errs, want)
		}
	}
}

// leadingMember adds members, which others leave to it.
type leadingMember struct{ stockMember }

func (leadingMember) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}, Member: &pb.Member{ID: 7, PeerURLs: r.PeerURLs}}, nil
}

// knowingMember knows of a leader that does not answer here.
type knowingMember struct{ leadingMember }

func (m knowingMember) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	got, err := m.stockMember.MemberList(ctx, r)
	got.Members = append(got.Members, &pb.Member{ID: 2, Name: "leader", ClientURLs: []string{"http://127.0.0.1:1"}})
	return got, err
}

func (m knowingMember) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	got, err := m.stockMember.Status(ctx, r)
	got.Leader = 2
	return got, err
}

// A change is asked of the leader, whichever member --at names: that one may be the next to stop.
func TestChangesGoToTheLeader(t *testing.T) {
	type member = interface {
		pb.ClusterServer
		pb.MaintenanceServer
	}
	start := func(m func(url string) member) (addr string) {
		l, g := listenLocal(t), grpc.NewServer()
		addr = l.Addr().String()
		s := m("http://" + addr)
		pb.RegisterClusterServer(g, s)
		pb.RegisterMaintenanceServer(g, s)
		serveUntilEnd(t, g, l)
		return addr
	}
	leader := start(func(url string) member { return leadingMember{stockMember{url: url}} })
	asked := start(func(string) member { return stockMember{url: "http://" + leader} })
	apart := start(func(url string) member { return knowingMember{leadingMember{stockMember{url: url}}} })
	if out, err := command(t, "member", "add", "d", "--learner", "--peer-urls", "http://h:1", "--at", "etcd://"+apart); err != nil || !strings.Contains(out, "--name d ") {
		t.Errorf("the leader does not answer here, and the member that was asked reaches it: %q, %v; want d added by way of that one", out, err)
	}
	out, err := command(t, "member", "add", "d", "--learner", "--peer-urls", "http://h:1", "--at", "etcd://"+asked)
	if err != nil || !strings.Contains(out, "--name d ") {
		t.Errorf("the member that was asked does not lead: %q, %v; want that the leader has added d", out, err)
	}
}
