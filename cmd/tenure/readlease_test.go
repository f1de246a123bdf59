package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// TestReadLeaseScripts runs testdata/readlease against members with made-up answers, so that
// scripts see rare states: entries that are held up, stalled holders. $THREE is a cluster whose
// third member is dead, $ALONE one member, $DIVIDED a member that divides the keys, $STOCK a
// server without the service.
func TestReadLeaseScripts(t *testing.T) {
	three := &story{policy: "all"}
	listeners := []net.Listener{listenLocal(t), listenLocal(t)}
	dead := freeAddresses(t, 1)[0]
	for i, addr := range []string{listeners[0].Addr().String(), listeners[1].Addr().String(), dead} {
		three.members = append(three.members, &pb.Member{ID: uint64(0xa + i), Name: string(rune('a' + i)), ClientURLs: []string{"http://" + addr}})
	}
	ms := time.Millisecond
	three.serve(t, listeners[0], 0xa, etcdapi.ReadLeaseStatus{
		Left: 150 * ms, Committed: 100, Released: 97, HeldUp: 3, Waiting: 130 * ms, WaitsFor: []uint64{0xc}, Stalled: []uint64{0xc},
		Holders: []etcdapi.ReadLeaseHolder{
			{Member: 0xa, Boot: 4, Has: 100}, {Member: 0xb, Boot: 2, Grantors: []uint64{0xa}, Has: 99},
			{Member: 0xc, Boot: 6, Grantors: []uint64{0xa, 0xb}, Has: 97}, {Member: 0xc, Boot: 5, Grantors: []uint64{0xb}, Has: 1},
		},
		LocalReads: 900, RoundReads: 100,
	})
	divided, ownDivided := &story{policy: "cost/key"}, listenLocal(t)
	divided.members = []*pb.Member{{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + ownDivided.Addr().String()}}}
	divided.serve(t, ownDivided, 0xa, etcdapi.ReadLeaseStatus{Order: "key", Cells: func() []string {
		cells := []string{"key:/motd=a,b,c", `prefix:"/x; y"=b`}
		for i := range 10 {
			cells = append(cells, fmt.Sprintf("key:/z/%d=a", i))
		}
		for i := range 16 {
			cells = append(cells, fmt.Sprintf("hash:%d/16=%s", i, []string{"a,b", "a,c", "a,b"}[i%3]))
		}
		return append(cells, "default=a,b,c")
	}})
	three.serve(t, listeners[1], 0xb, etcdapi.ReadLeaseStatus{
		Left: 120 * ms, Committed: 98, Released: 96, LocalReads: 3, ForwardedReads: 1,
		// It is bound to the leader, which has not heard of it yet, and no longer
		// to the third, which the leader still believes.
		Holders: []etcdapi.ReadLeaseHolder{{Member: 0xa, Boot: 4, Grantors: []uint64{0xb}}},
	})

	stock := grpc.NewServer()
	listener := listenLocal(t)
	pb.RegisterClusterServer(stock, stockMember{url: "http://" + listener.Addr().String()})
	pb.RegisterMaintenanceServer(stock, stockMember{})
	serveUntilEnd(t, stock, listener)

	testscript.Run(t, testscript.Params{
		Dir: "testdata/readlease",
		Setup: func(env *testscript.Env) error {
			// Each script has one of its own, to set its policy.
			alone, own := &story{policy: "off"}, listenLocal(t)
			alone.members = []*pb.Member{{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + own.Addr().String()}}}
			alone.serve(t, own, 0xa, etcdapi.ReadLeaseStatus{Committed: 7, Released: 7})
			env.Setenv("THREE", "etcd://"+listeners[0].Addr().String()+","+listeners[1].Addr().String())
			env.Setenv("SECOND", "etcd://"+listeners[1].Addr().String())
			env.Setenv("ALONE", strings.Replace(alone.members[0].ClientURLs[0], "http", "etcd", 1))
			env.Setenv("DIVIDED", "etcd://"+ownDivided.Addr().String())
			env.Setenv("STOCK", "etcd://"+listener.Addr().String())
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": codeCmd},
	})
}

// story is a cluster that leads a made-up life. Its first member leads.
type story struct {
	members    []*pb.Member
	leaderless bool
	refusal    error // of changes of the policy
	mu         sync.Mutex
	policy     string
	limited    bool // it fails after so many answers
	answers    int
}

// teller is a member of it. Nothing here asks for anything else.
type teller struct {
	etcdapi.Backend
	*story
	id     uint64
	leases etcdapi.ReadLeaseStatus
}

func (s *story) serve(t *testing.T, l net.Listener, id uint64, leases etcdapi.ReadLeaseStatus) {
	leases.Order, leases.TTL = cmp.Or(leases.Order, "strict"), 200*time.Millisecond
	api := etcdapi.New(&teller{story: s, id: id, leases: leases}, etcdapi.Config{ReadLeaseChanges: etcdapi.ChangeOrder})
	g := grpc.NewServer(api.Options()...)
	api.Register(g)
	serveUntilEnd(t, g, l)
}

func (m *teller) ID() uint64                                              { return m.id }
func (m *teller) ClusterID() uint64                                       { return 0xc1 }
func (m *teller) ViewFor(context.Context, proto.Message) (kv.View, error) { return m.View(), nil }
func (m *teller) View() kv.View                                           { return kv.New().View() }
func (m *teller) Users() *auth.State                                      { return auth.New() }
func (m *teller) Alarms() *alarm.State                                    { return alarm.New() }
func (m *teller) Shown() <-chan struct{}                                  { return nil }
func (m *teller) Members() []*pb.Member                                   { return m.members }
func (m *teller) Status() etcdapi.Status                                  { return etcdapi.Status{} }

// Barrier is what takes a leader.
func (m *teller) Barrier(context.Context) error {
	if m.leaderless {
		return rpctypes.ErrGRPCNoLeader
	}
	return nil
}

func (m *teller) Leader() (uint64, uint64, time.Duration) {
	if m.leaderless {
		return 0, 5, time.Second
	}
	return m.members[0].ID, 5, 0
}

func (m *teller) ReadLeases() (etcdapi.ReadLeaseStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limited {
		if m.answers--; m.answers < 0 {
			return etcdapi.ReadLeaseStatus{}, rpctypes.ErrGRPCTimeout
		}
	}
	st := m.leases
	st.Policy = m.policy
	return st, nil
}

func (m *teller) SetReadPolicy(_ context.Context, policy, cells string) error {
	if cells == "nonsense" {
		return fmt.Errorf("%w: %q: write it as SELECTOR=NAME,NAME", etcdapi.ErrCells, cells)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusal == nil {
		m.policy = policy
	}
	return m.refusal
}

// stockMember is as much of an etcd as these commands ask before they give up.
type stockMember struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	url string
}

func (m stockMember) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: []*pb.Member{{ID: 1, Name: "stock", ClientURLs: []string{m.url}}}}, nil
}

func (m stockMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{}, Version: "3.7.3", Leader: 1, RaftTerm: 2}, nil
}

// serveUntilEnd serves until the test ends.
func serveUntilEnd(t *testing.T, g *grpc.Server, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A change that a member does not permit was not made, and is no failure of the store.
func TestReadLeaseSetThatIsNotPermitted(t *testing.T) {
	s, l := &story{policy: "leader"}, listenLocal(t)
	s.members = []*pb.Member{{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + l.Addr().String()}}}
	server := grpc.NewServer()
	api := etcdapi.New(&teller{story: s, id: 0xa, leases: etcdapi.ReadLeaseStatus{Order: "strict"}}, etcdapi.Config{})
	api.Register(server)
	serveUntilEnd(t, server, l)
	cmd := rootCommand()
	cmd.SetArgs([]string{"read-lease", "set", "all", "--order", "key", "--at", "etcd://" + l.Addr().String()})
	err := cmd.Execute()
	var exit cli.ExitError
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "--read-lease-changes order") || strings.Contains(err.Error(), "not known") {
		t.Errorf("error %v, want it to say who permits that, and that nothing was changed", err)
	}
	if s.policy != "leader" {
		t.Errorf("the policy is %s, want leader", s.policy)
	}
}

// tell serves a story of one member until the test ends, and returns its URL.
func tell(t *testing.T, s *story) string {
	l := listenLocal(t)
	s.members = []*pb.Member{{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + l.Addr().String()}}}
	s.serve(t, l, 0xa, etcdapi.ReadLeaseStatus{})
	return "etcd://" + l.Addr().String()
}

// After a change that failed somehow its outcome is unknown: the command says so, and the exit code is
// that of a store that does not answer.
func TestReadLeaseSetThatMayHaveHappened(t *testing.T) {
	at := tell(t, &story{policy: "leader", refusal: rpctypes.ErrGRPCTimeout})
	_, err := command(t, "read-lease", "set", "all", "--at", at)
	wantExit(t, err, cli.ExitUnavailable)
	if err == nil || !strings.Contains(err.Error(), "whether the policy was changed is not known") {
		t.Errorf("error %v, want that it is not known whether the policy was changed", err)
	}
}

// A cluster without a leader is shown, and the exit code tells.
func TestStatusWithoutALeader(t *testing.T) {
	out, err := command(t, "status", "--at", tell(t, &story{policy: "off", leaderless: true}))
	wantExit(t, err, cli.ExitUnavailable)
	if !strings.Contains(out, "leader none") {
		t.Errorf("it prints %q, want the members and no leader", out)
	}
}

// Of several reports on the holders of a key the one of the latest term is believed, and that of a
// member that knows the leader before that of one that does not.
func TestTheLatestTermIsBelieved(t *testing.T) {
	leader := &readleasepb.Member{Id: 1}
	for name, answers := range map[string][]*readleasepb.HoldersResponse{
		"the first":                  {{Term: 7, Policy: "want"}, nil, {Term: 6, Leader: leader}},
		"a later one":                {nil, {Term: 6, Leader: leader}, {Term: 7, Policy: "want"}},
		"one that knows the leader":  {{Term: 7}, {Term: 7, Policy: "want", Leader: leader}},
		"the first that knows it":    {{Term: 7, Policy: "want", Leader: leader}, {Term: 7}, {Term: 7, Leader: leader}},
		"without a leader, the last": {{Term: 6, Leader: leader}, {Term: 7}, {Term: 7, Policy: "want"}},
	} {
		if got := latest(answers); got.GetPolicy() != "want" {
			t.Errorf("%s: believed is %v", name, got)
		}
	}
	if got := latest([]*readleasepb.HoldersResponse{nil}); got != nil {
		t.Errorf("without an answer believed is %v", got)
	}
}

// The holders of keys are told whole, however many they are. If they cannot be had, or not be printed, that is a failure for
// those that asked for them alone.
func TestAllHoldersOfKeysAreTold(t *testing.T) {
	long := "default=" + strings.Repeat("x", 5<<20) // more than gRPC takes unless it is told to
	l := listenLocal(t)
	s := &story{policy: "cost/key"}
	s.members = []*pb.Member{{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + l.Addr().String()}}}
	s.serve(t, l, 0xa, etcdapi.ReadLeaseStatus{Order: "key", Cells: func() []string { return []string{"key:/k=a", long} }})
	at := "etcd://" + l.Addr().String()
	if out, err := command(t, "read-lease", "--cells", "--at", at); err != nil || out != "key:/k=a;\n"+long+"\n" {
		t.Errorf("told are %d bytes, %v, want %d", len(out), err, len(long)+12)
	}
	for args, want := range map[string]bool{"": true, "-o json --cells": true, "-o json": false} {
		out, err := command(t, append([]string{"read-lease", "--at", at}, strings.Fields(args)...)...)
		if err != nil || strings.Contains(out, "key:/k=a") != want || !strings.Contains(out, "cost/key") {
			t.Errorf("read-lease %s tells %d bytes, %v; want the policy, and the holders of keys: %v", args, len(out), err, want)
		}
	}
	s.mu.Lock()
	s.limited, s.answers = true, 1
	s.mu.Unlock()
	_, err := command(t, "read-lease", "--cells", "--at", at)
	wantExit(t, err, cli.ExitUnavailable)
	s.mu.Lock()
	s.answers = 1
	s.mu.Unlock()
	if out, err := command(t, "read-lease", "--at", at); err != nil || !strings.Contains(out, "policy cost/key, key order") {
		t.Errorf("without the holders of keys the rest is told as %q, %v", out, err)
	}
	full := errors.New("the disk is full")
	r, w := io.Pipe()
	r.CloseWithError(full)
	if err := (&readLeases{Cells: []string{"default=a"}}).allCells(w); err != full {
		t.Errorf("an output that takes nothing: %v, want %v", err, full)
	}
}

// A cluster of which no member tells its state is shown by its list of members.
func TestStatusWithoutAnswers(t *testing.T) {
	s := &story{policy: "all"}
	at := tell(t, s)
	s.members = []*pb.Member{{ID: 0xb, Name: "b"}}
	out, err := command(t, "status", "--at", at, "-o", "json")
	wantExit(t, err, cli.ExitUnavailable)
	if !strings.Contains(out, `"name": "b"`) || strings.Contains(out, "read_leases") {
		t.Errorf("it prints %s, want b, and no read leases", out)
	}
}
