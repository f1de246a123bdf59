package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/lab/golden"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// exact is a source of which each figure is told by no other: no two are equal, nor 0 or 1 unless they have to be.
type exact struct {
	member
	leader                   uint64
	learner                  bool // this member
	left                     time.Duration
	short, unsynced, doubted bool
	restoring                bool
	silent                   bool // its status is not known
	held                     chan struct{}
}

func (e exact) Leader() (id, term uint64, _ time.Duration) { return e.leader, 1021, 1022 * time.Second }

func (e exact) Members() []*pb.Member {
	return []*pb.Member{{ID: 0xbb, IsLearner: !e.learner}, {ID: 0xa, IsLearner: e.learner}, {ID: 0xcc}}
}

func (e exact) Status() (node.Status, bool) {
	return node.Status{
		Commit: 1031, Applied: 1032, TailBytes: 1033, Renewals: 1037, Expired: 1038, Promoted: 1040, Unpromoted: map[string]uint64{"not ready": 1041, "no learner": 1042},
		ReadLeases: replica.ReadLeaseStatus{Released: 1034, Held: 1035, HeldFor: 1036500 * time.Millisecond, Left: e.left, TTL: 1039 * time.Second, Holdings: make([]quorumlease.Holding, 5)},
	}, !e.silent
}

func (e exact) View() kv.View {
	s := kv.New()
	for range 9 {
		s.Put(&pb.PutRequest{Key: []byte("k")})
	}
	if err := s.Compact(7); err != nil {
		panic(err)
	}
	return s.View()
}

func (e exact) Figures() node.Figures {
	if e.held != nil {
		<-e.held
	}
	of := e.member.Figures()
	of.Restoring = e.restoring
	s := kv.New()
	s.Counts = of.Counts
	for id, ttl := range []int64{1, 2, 1 << 23, 1<<23 + 1} {
		if err := s.Grant(int64(id)+1, ttl); err != nil {
			panic(err)
		}
	}
	return of
}

func (exact) PeerStats(id uint64) peer.Stats {
	if id == 0xcc {
		return peer.Stats{BytesSent: 10_000, StreamBytesSent: 2_000, BytesReceived: 30_000, StreamBytesReceived: 4_000, MessagesDropped: 5_000,
			Disconnects: 6_001, StreamsSent: 6_002, StreamsUnsent: 6_003, StreamsSending: 6_004, StreamsReceived: 6_005, StreamsUnreceived: 6_006, StreamsReceiving: 6_007}
	}
	return peer.Stats{Connected: true, RTT: 700 * time.Microsecond, BytesSent: 100, StreamBytesSent: 20, BytesReceived: 300, StreamBytesReceived: 40, MessagesDropped: 50}
}

func (exact) Alarms() *alarm.State {
	raised := alarm.New()
	for id, kind := range map[uint64]pb.AlarmType{0xbb: pb.AlarmType_NOSPACE, 0xcc: pb.AlarmType_CORRUPT} {
		raised, _, _ = raised.Apply(&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: kind})
	}
	return raised
}

// Users are some that were changed.
func (exact) Users() *auth.State {
	users := auth.New()
	for _, name := range []string{"a", "b", "c"} {
		users, _, _ = users.Apply(auth.Caller{}, &pb.AuthRoleAddRequest{Name: name})
	}
	return users
}

func (e exact) Clock() (node.ClockReport, bool) { return node.ClockReport{}, e.doubted }
func (e exact) Short() bool                     { return e.short }
func (e exact) Unsynced() bool                  { return e.unsynced }

// kinds is a service that has a method of each kind.
var kinds = map[string]grpc.ServiceInfo{"of.All": {Methods: []grpc.MethodInfo{
	{Name: "Call"}, {Name: "Send", IsClientStream: true}, {Name: "Hear", IsServerStream: true}, {Name: "Talk", IsClientStream: true, IsServerStream: true},
}}}

var errBroken = errors.New("the connection is broken")

// broken is a stream that ends after some messages each way.
type broken struct {
	grpc.ServerStream
	sends, receives *int
}

func (b broken) SendMsg(any) error { return after(b.sends) }
func (b broken) RecvMsg(any) error { return after(b.receives) }

func after(left *int) error {
	if *left--; *left < 0 {
		return errBroken
	}
	return nil
}

// called makes calls of each kind, whose numbers differ: of messages sent and received, of successes and failures, and of their seconds.
func called(t *testing.T, m *Metrics) {
	t.Helper()
	for i, err := range []error{nil, nil, status.Error(codes.Unavailable, ""), status.Error(codes.Unauthenticated, ""), status.Error(17, ""), errBroken} {
		_, got := m.calls.unary(t.Context(), "request", &grpc.UnaryServerInfo{FullMethod: "/of.All/Call"}, func(context.Context, any) (any, error) {
			time.Sleep(time.Duration(i) * time.Second)
			return "response", err
		})
		if !errors.Is(got, err) {
			t.Errorf("a call that ends with %v is answered with %v", err, got)
		}
	}
	for i, name := range []string{"Send", "Hear", "Talk"} {
		sends, receives := 2+i, 6+i
		err := m.calls.stream("server", broken{sends: &sends, receives: &receives}, &grpc.StreamServerInfo{FullMethod: "/of.All/" + name}, func(_ any, s grpc.ServerStream) error {
			time.Sleep(time.Duration(10*(i+1)) * time.Second)
			for s.SendMsg(nil) == nil {
			}
			for s.RecvMsg(nil) == nil {
			}
			return status.Error(codes.Code(i+1), "")
		})
		if status.Code(err) != codes.Code(i+1) {
			t.Errorf("the stream %s ends with %v, want code %d", name, err, i+1)
		}
	}
}

// ofTheMember leaves out what the process has, and what depends on the build.
func ofTheMember(scraped string) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(scraped, "\n"), "\n") {
		if regexp.MustCompile(`^(# (HELP|TYPE) )?(go_|process_)`).MatchString(line) {
			continue
		}
		line = strings.ReplaceAll(line, fmt.Sprintf("%q", runtime.Version()), `"GO"`)
		line = regexp.MustCompile(`^tenure_build_info\{commit="[^"]+",version="[^"]+"\}`).ReplaceAllString(line, `tenure_build_info{commit="COMMIT",version="VERSION"}`)
		lines = append(lines, line)
	}
	return lines
}

// All that a scraper gets, name by name: help, type, labels, buckets and values. `-rewrite` writes it anew.
func TestExposition(t *testing.T) {
	const file = "testdata/exposition.txt"
	bubble.Test(t, func(t *testing.T) {
		m := New(Config{Extensive: true, Versions: versions})
		if err := m.Add(exact{member: member{quota: 92}, leader: 0xbb, learner: true, left: -1}, kinds); err != nil {
			t.Fatal(err)
		}
		called(t, m)
		for i, took := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 8 * time.Second, 9 * time.Second} {
			for range i + 1 {
				m.Synced(took)
				m.Wrote(1000*(i+1), took/2)
			}
		}
		for i, op := range []string{"Put", "Txn", ""} {
			for j := range 4 + i {
				m.Applied(op, j > 0, time.Duration(j+1)*100*time.Microsecond)
			}
		}
		for i := range 5 {
			m.Health(i > 1)
		}
		for i := range 7 {
			m.Check("readyz", "non_learner", i > 2)
			m.Check("livez", "serializable_read", i < 5)
		}
		got := ofTheMember(scrape(t, m))
		want := strings.Split(strings.TrimSuffix(golden.Kept(t, file, strings.Join(got, "\n")+"\n"), "\n"), "\n")
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("the exposition lacks %q", line)
			}
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("the exposition has %q, which %s has not", line, file)
			}
		}
		if len(got) != len(want) {
			t.Errorf("the exposition has %d lines, want %d", len(got), len(want))
		}
	})
}

// Figures that are yes or no, or are not there at all, follow the member.
func TestFiguresFollowTheMember(t *testing.T) {
	for _, c := range []struct {
		name   string
		source exact
		want   string // the lines that differ from those of a member of which nothing is true
	}{
		{"nothing is true", exact{}, ""},
		{"a leader is known", exact{leader: 0xbb}, "etcd_server_has_leader 1"},
		{"it leads", exact{leader: 0xa}, "etcd_server_has_leader 1 etcd_server_is_leader 1"},
		{"it is a learner", exact{learner: true}, "etcd_server_is_learner 1"},
		{"its lease lasts", exact{left: time.Nanosecond}, "tenure_read_lease_held 1"},
		{"its lease needs not last", exact{left: -1}, "tenure_read_lease_held 1"},
		{"memory is short", exact{short: true}, "tenure_memory_short 1"},
		{"its disk is not synced", exact{unsynced: true}, "tenure_unsynced 1"},
		{"its clock is doubted", exact{doubted: true}, "tenure_clock_doubted 1"},
		{"it reads a snapshot", exact{restoring: true}, "etcd_server_snapshot_apply_in_progress_total 1"},
		{"it has a quota of one byte", exact{member: member{quota: 1}}, "etcd_server_quota_backend_bytes 1"},
		{"its status is not known", exact{silent: true}, ""},
	} {
		got := scrape(t, added(t, Config{}, c.source))
		want := []string{
			"etcd_server_has_leader 0", "etcd_server_is_leader 0", "etcd_server_is_learner 0", "tenure_read_lease_held 0",
			"tenure_memory_short 0", "tenure_unsynced 0", "tenure_clock_doubted 0", "etcd_server_snapshot_apply_in_progress_total 0", "etcd_server_quota_backend_bytes +Inf",
		}
		pairs := strings.Fields(c.want)
		for i := 0; i < len(pairs); i += 2 {
			at := slices.IndexFunc(want, func(line string) bool { return strings.HasPrefix(line, pairs[i]+" ") })
			want[at] = pairs[i] + " " + pairs[i+1]
		}
		for _, line := range want {
			if name, _, _ := strings.Cut(line, " "); c.source.silent && figureOf(t, name).asked {
				continue
			}
			if !slices.Contains(strings.Split(got, "\n"), line) {
				t.Errorf("%s: metrics lack %q", c.name, line)
			}
		}
		for _, name := range []string{
			"etcd_server_proposals_committed_total", "etcd_server_proposals_applied_total", "etcd_debugging_lease_renewed_total", "etcd_debugging_server_lease_expired_total", "etcd_server_learner_promote_successes",
			"tenure_raft_log_bytes", "tenure_released_index", "tenure_releases_held_entries", "tenure_releases_held_seconds", "tenure_read_lease_held", "tenure_read_lease_holders",
		} {
			if strings.Contains(got, "\n"+name+" ") == c.source.silent {
				t.Errorf("%s: status known %v, and %s is told %v", c.name, !c.source.silent, name, !c.source.silent == !strings.Contains(got, "\n"+name+" "))
			}
		}
	}
}

// Each figure is described, is of its type, and has each set of labels once: a pedantic registry finds no fault.
func TestFiguresAreDescribed(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m := added(t, Config{Extensive: true, Register: r}, exact{})
	m.Check("livez", "serializable_read", true)
	if _, err := r.Gather(); err != nil {
		t.Errorf("figures are not as they were described: %v", err)
	}
}

// The round trip is observed once a scrape, for those members that have one.
func TestRoundTripsAddUp(t *testing.T) {
	m := added(t, Config{}, exact{})
	for i := range 3 {
		got := scrape(t, m)
		wantLine(t, got, fmt.Sprintf(`etcd_network_peer_round_trip_time_seconds_count{To="bb"} %d`, i+1))
		if strings.Contains(got, `etcd_network_peer_round_trip_time_seconds_count{To="cc"}`) {
			t.Error("a member without a round trip seems to have one")
		}
	}
}

// A member whose stepping goroutine waits for its disk tells the figures that need no answer. One scrape waits for it as
// long as was said, others do without its status at once, and when it answers again it is asked again.
func TestAMemberThatHangsIsMeasured(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		m := added(t, Config{}, member{hangs: hangs})
		for i, want := range []time.Duration{time.Second, 0, 0} {
			begun := time.Now()
			got := scrape(t, m)
			if took := time.Since(begun); took != want {
				t.Errorf("scrape %d of a member that hangs waits %v, want %v", i, took, want)
			}
			wantLine(t, got, "etcd_server_has_leader 1")
			if strings.Contains(got, "etcd_server_proposals_committed_total") {
				t.Error("a member that does not answer tells its commit index")
			}
		}
		close(hangs)
		synctest.Wait()
		for range 2 {
			wantLine(t, scrape(t, m), "etcd_server_proposals_committed_total 31")
		}
	})
}

// So many scrapes may be answered at a time, and one more is refused.
func TestScrapesAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		m := added(t, Config{}, exact{held: held})
		h := m.Handler()
		answers := make(chan int, 9)
		for range 9 {
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				answers <- w.Code
			}()
		}
		synctest.Wait()
		if n := len(answers); n != 1 {
			t.Errorf("of 9 scrapes at a time %d are answered at once, want 1 refused", n)
		} else if code := <-answers; code != 503 {
			t.Errorf("the ninth scrape at a time is answered by %d, want 503", code)
		}
		close(held)
		synctest.Wait()
	})
}

// Interceptors change nothing: requests, contexts, responses and errors pass, also those of methods that are not known.
func TestCallsPassThrough(t *testing.T) {
	m := added(t, Config{}, member{})
	type key struct{}
	for _, method := range []string{"/etcdserverpb.KV/Range", "/etcdserverpb.KV/Unheard"} {
		for _, want := range []error{nil, errBroken} {
			ctx := context.WithValue(t.Context(), key{}, "kept")
			resp, err := m.calls.unary(ctx, "request", &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, req any) (any, error) {
				if ctx.Value(key{}) != "kept" || req != "request" {
					t.Errorf("%s is called with %v in a context with %v, want its request and context", method, req, ctx.Value(key{}))
				}
				return "response", want
			})
			if resp != "response" || err != want {
				t.Errorf("%s that answers with %v answers %v, %v", method, want, resp, err)
			}
			sends, receives := 1, 1
			err = m.calls.stream("server", broken{sends: &sends, receives: &receives}, &grpc.StreamServerInfo{FullMethod: method + "Stream"}, func(srv any, s grpc.ServerStream) error {
				if srv != "server" || s.SendMsg(nil) != nil || s.RecvMsg(nil) != nil || s.SendMsg(nil) != errBroken || s.RecvMsg(nil) != errBroken || sends != -1 || receives != -1 {
					t.Errorf("%sStream does not reach its stream: server %v, %d sends and %d receives left", method, srv, sends, receives)
				}
				return want
			})
			if err != want {
				t.Errorf("%sStream that ends with %v ends with %v", method, want, err)
			}
		}
	}
}
