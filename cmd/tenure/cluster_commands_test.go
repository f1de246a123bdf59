package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// heardCluster are three members that write down what they are asked for, beside a voter that is down and a learner
// that has not started. Each field of their answers has a value of its own.
type heardCluster struct {
	mu     sync.Mutex
	asked  []string
	late   []string // calls that may take longer than limit or callLimits says
	limit  time.Duration
	refuse error // of all changes
	list   []*pb.Member
}

// heardMember is one of them.
type heardMember struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	readleasepb.UnimplementedReadLeaseServer
	c  *heardCluster
	id uint64
}

// callLimits is how long one call of a command may take. The others have ten seconds, as the commands have.
var callLimits = map[string]time.Duration{
	"MemberList": 3 * time.Second, "Status": 2 * time.Second, "Get": 2 * time.Second, "Holders": 2 * time.Second,
	"LeaseLeases": 3 * time.Second, "Range": 3 * time.Second, "Txn": 3 * time.Second,
}

// startHeard starts the members, and returns them with the addresses of those that answer.
func startHeard(t *testing.T) (c *heardCluster, addrs []string) {
	c = &heardCluster{}
	names := []string{"lead", "other", "learn"}
	for i, name := range names {
		l := listenLocal(t)
		m := &heardMember{c: c, id: 0xa1 + 0x11*uint64(i)}
		g := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, r any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			words := strings.Join(strings.Fields(fmt.Sprint(r)), " ")
			c.mu.Lock()
			method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
			c.asked = append(c.asked, fmt.Sprintf("%s: %s {%s}", name, method, words))
			end, ends := ctx.Deadline()
			if method != "Authenticate" && (!ends || time.Until(end) > cmp.Or(c.limit, callLimits[method], 10*time.Second)) { // a login is ended by its client
				c.late = append(c.late, method)
			}
			c.mu.Unlock()
			return handle(ctx, r)
		}))
		pb.RegisterAuthServer(g, m)
		pb.RegisterClusterServer(g, m)
		pb.RegisterMaintenanceServer(g, m)
		pb.RegisterKVServer(g, m)
		pb.RegisterLeaseServer(g, m)
		readleasepb.RegisterReadLeaseServer(g, m)
		addrs = append(addrs, l.Addr().String())
		c.list = append(c.list, &pb.Member{
			ID: m.id, Name: name, IsLearner: name == "learn", PeerURLs: []string{"http://" + name + ":1", "http://" + name + ":2"}, ClientURLs: []string{"http://" + addrs[i]},
		})
		serveUntilEnd(t, g, l)
	}
	c.list = append(c.list,
		&pb.Member{ID: 0xd4, Name: "down", PeerURLs: []string{"http://down:1"}, ClientURLs: []string{"http://127.0.0.1:1"}},
		&pb.Member{ID: 0xe5, IsLearner: true, PeerURLs: []string{"http://new:1"}})
	return c, addrs
}

func (m *heardMember) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: "token.1"}, nil
}

func (m *heardMember) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: 0xc1, MemberId: m.id}, Members: m.c.list}, nil
}

func (m *heardMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	n := m.id & 0xf // 1, 2, 3
	got := &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: 0xc1, MemberId: m.id, Revision: 70 + int64(n)}, Version: fmt.Sprintf("3.7.%d", n),
		Leader: 0xa1, RaftTerm: 5, RaftIndex: 1000 + n, RaftAppliedIndex: 1000 - 10*n, DbSize: 100 * int64(n), DbSizeInUse: 7,
	}
	if n == 2 {
		got.Errors = []string{"odd", "full"}
	}
	return got, nil
}

func (m *heardMember) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}, Member: &pb.Member{ID: 0xf6, PeerURLs: r.PeerURLs}}, m.c.refuse
}

func (m *heardMember) MemberRemove(context.Context, *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return &pb.MemberRemoveResponse{}, m.c.refuse
}

func (m *heardMember) MemberUpdate(context.Context, *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	return &pb.MemberUpdateResponse{}, m.c.refuse
}

func (m *heardMember) MemberPromote(context.Context, *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return &pb.MemberPromoteResponse{}, m.c.refuse
}

func (m *heardMember) MoveLeader(context.Context, *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return &pb.MoveLeaderResponse{}, m.c.refuse
}

func (m *heardMember) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}, More: true, Kvs: []*mvccpb.KeyValue{{Key: []byte("job.record")}, {Key: []byte("x")}}}, nil
}

func (m *heardMember) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	record := `{"started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:05:05Z","holder":"h","token":9}`
	return &pb.TxnResponse{Header: &pb.ResponseHeader{}, Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{
		ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("job.record"), Value: []byte(record)}}},
	}}}}, nil
}

func (m *heardMember) LeaseLeases(context.Context, *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return &pb.LeaseLeasesResponse{Header: &pb.ResponseHeader{}, Leases: make([]*pb.LeaseStatus, 4)}, nil
}

func (m *heardMember) Get(_ context.Context, r *readleasepb.GetRequest) (*readleasepb.GetResponse, error) {
	n := m.id & 0xf
	member := func(id uint64) *readleasepb.Member { return &readleasepb.Member{Id: id} }
	after := func(ms uint64) *durationpb.Duration { return durationpb.New(time.Duration(ms) * time.Millisecond) }
	got := &readleasepb.GetResponse{
		ClusterId: 0xc1, MemberId: m.id, Leader: member(0xa1), Term: 5, Policy: "cost/key", Order: "key", Ttl: after(200 + n), LeaseLeft: after(100 + n),
		CommittedIndex: 990, ReleasedIndex: 980 - n, Reads: &readleasepb.Reads{Local: 10 * n, Rounds: 20 * n, Forwarded: 30 * n},
		Holders: []*readleasepb.Holder{{Member: member(0xb2), Boot: 6, HasIndex: 975, Active: true, Partial: true, Grantors: []uint64{0xa1, 0xb2}}},
	}
	switch n {
	case 1:
		got.HeldUp = &readleasepb.HeldUp{Entries: 3, Waiting: after(40), By: []uint64{0xb2}}
		got.Stalled = []uint64{0xc3}
	case 2:
		got.Clock = &readleasepb.Clock{Doubts: 11, Pauses: 12, Suspends: 13, Last: "stood still", LastAgo: after(14_000)}
	}
	if r.Cells {
		got.Cells = []string{"key:/k=lead", "hash:0/2=other", "hash:1/2=lead", "default=*"}
	}
	return got, nil
}

func (m *heardMember) Set(_ context.Context, r *readleasepb.SetRequest) (*readleasepb.SetResponse, error) {
	return &readleasepb.SetResponse{Previous: "cost/key", Policy: r.Policy}, m.c.refuse
}

func (m *heardMember) Holders(context.Context, *readleasepb.HoldersRequest) (*readleasepb.HoldersResponse, error) {
	got := &readleasepb.HoldersResponse{MemberId: m.id, Leader: &readleasepb.Member{Id: 0xa1, Name: "lead"}, Term: 5, Policy: "cost/key", Order: "key"}
	if m.id == 0xb2 {
		got.Holders = []*readleasepb.Holder{{Member: &readleasepb.Member{Id: m.id}}}
	}
	return got, nil
}

// clusterCommands are command lines that ask a cluster. Those with ! are refused by it.
var clusterCommands = []string{
	"status --user ann --password pw", "member list --user ann --password-file testdata/password.txt", "member list --user ann:colon --password pw", "read-lease --user ann:colon",
	"read-lease --user ann --password-file testdata/password.txt", "read-lease --user ann --password pw", "status --user ann --password-file testdata/password.txt",
	"status", "status -o json", "member list", "member list -o json",
	"read-lease", "read-lease -o json", "read-lease --cells", "read-lease --cells -o json",
	"read-lease set all", "read-lease set cost/key", "read-lease set leader --order key -o json", "read-lease set static --order key --cells default=*", "!read-lease set all",
	"read-lease holders k", "read-lease holders a b -o json", "read-lease holders a --prefix",
	"member add e --learner --peer-urls http://h:7", "member add e --learner --peer-urls http://h:7 --client-urls http://h:8,http://h:9", "member add e --learner --peer-urls http://h:7 -o json",
	"member add e --peer-urls http://h:7", "member add e --peer-urls http://h:7 --yes", "member add e --peer-urls http://h:7 --yes -o json", "!member add e --learner --peer-urls http://h:7",
	"member add", "member add e", "member add e --peer-urls http://h:7,http://h:8", "member add a,b --peer-urls http://h:7", "member add e --peer-urls http://h:7 --client-urls http://0.0.0.0:1",
	"member remove other", "member remove other --yes", "member remove b2 --yes -o json", "member remove down", "member remove http://new:1", "!member remove down", "member remove",
	"member update other --peer-urls http://h:7", "member update e5 --peer-urls http://h:7 -o json", "!member update other --peer-urls http://h:7", "member update other",
	"member promote learn", "member promote learn -o json", "!member promote learn", "member promote e5 --wait 0", "member promote e5 --yes", "member promote other",
	"member move-leader other", "member move-leader B2 -o json", "!member move-leader other", "member move-leader lead", "member move-leader down", "member move-leader learn", "member move-leader nosuch --output json",
	"member move-leader other --user ann --password pw",
}

// Each command for a cluster asks, prints on each of its outputs, and exits, as is written in
// testdata/cluster_commands.txt, which -rewrite writes. No call may take as long as it likes: a member that is
// silent would hold the command up.
func TestEachCommandOfACluster(t *testing.T) {
	c, addrs := startHeard(t)
	mask := strings.NewReplacer(addrs[0], "LEAD", addrs[1], "OTHER", addrs[2], "LEARN").Replace
	refusedDial := regexp.MustCompile(`(no answer from http://127.0.0.1:1: )[^\n]*refused`)
	distance := regexp.MustCompile(`("round_trip_ms": |b2 +)[0-9.]+( ms +)?`)
	var all strings.Builder
	for _, line := range clusterCommands {
		words, refused := strings.CutPrefix(line, "!")
		c.mu.Lock()
		c.asked, c.late, c.refuse = nil, nil, nil
		if refused {
			c.refuse = rpctypes.ErrGRPCUnhealthy
		}
		c.mu.Unlock()
		code, out, errs := ran(t, append(strings.Fields(words), "--at", "etcd://"+addrs[1])...)
		c.mu.Lock()
		if len(c.late) > 0 {
			t.Errorf("tenure %s has no limit, or too long a one, for its calls %q", line, c.late)
		}
		if n := strings.Count(strings.Join(c.asked, "\n"), "MemberList {}"); n > 1 {
			t.Errorf("tenure %s tries %d times, want once", line, n)
		}
		slices.Sort(c.asked)
		text := fmt.Sprintf("$ tenure %s\nexit %d\n", line, code)
		for _, part := range [][2]string{{"out", out}, {"err", errs}, {"asked", strings.Join(slices.Compact(c.asked), "\n")}} {
			for line := range strings.Lines(part[1]) {
				text += part[0] + ": " + strings.TrimRight(line, " \n") + "\n"
			}
		}
		c.mu.Unlock()
		text = distance.ReplaceAllString(refusedDial.ReplaceAllString(mask(text), "${1}refused"), "${1}NEAR ")
		all.WriteString(text)
	}
	golden.Lines(t, "testdata/cluster_commands.txt", all.String())
}

// Each flag of the commands that ask a cluster is in one of these command lines.
func TestEachFlagForAClusterIsTried(t *testing.T) {
	untried := map[string]bool{}
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		if len(path) == 0 || !slices.Contains([]string{"status", "member", "read-lease"}, path[0]) {
			return
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "at" || f.Name == "help" { // all have the former
				return
			}
			words := strings.Join(path, " ")
			if !slices.ContainsFunc(clusterCommands, func(line string) bool {
				has := strings.Fields(line)
				return strings.HasPrefix(line+" ", words+" ") && (slices.Contains(has, "--"+f.Name) || f.Shorthand != "" && slices.Contains(has, "-"+f.Shorthand))
			}) {
				untried[words+" --"+f.Name] = true
			}
		})
	})
	if len(untried) > 0 {
		t.Errorf("clusterCommands has no line with %q", slices.Sorted(maps.Keys(untried)))
	}
}
