package metrics

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// member is a source whose figures all differ.
type member struct {
	hangs chan struct{} // if set, its status waits for the end of it
	quota int64
}

func (member) ID() uint64                                 { return 0xa }
func (member) Leader() (id, term uint64, _ time.Duration) { return 0xb, 21, 0 }
func (member) Members() []*pb.Member {
	return []*pb.Member{{ID: 0xa, IsLearner: true}, {ID: 0xb}}
}
func (m member) Status() (node.Status, bool) {
	if m.hangs != nil {
		<-m.hangs
	}
	return node.Status{Commit: 31, Applied: 32, TailBytes: 33, ReadLeases: replica.ReadLeaseStatus{Released: 34, Held: 35, HeldFor: 36 * time.Second, Left: 1}, Renewals: 37, Expired: 38, Unpromoted: map[string]uint64{"not ready": 39}}, true
}
func (member) Stats() kv.Stats { return kv.Stats{Keys: 41, Versions: 42, Leases: 43} }
func (member) View() kv.View   { return kv.New().View() }
func (member) Figures() node.Figures {
	return node.Figures{LeaderChanges: 51, Failed: 52, Pending: 53, PendingBytes: 54, Slow: 55, LateBeats: 56, SlowReads: 57, FailedReads: 58, Counts: counts()}
}
func (member) PeerStats(id uint64) peer.Stats {
	return peer.Stats{Connected: true, RTT: 300 * time.Microsecond, BytesSent: 60, StreamBytesSent: 1, BytesReceived: 70, StreamBytesReceived: 2, MessagesDropped: 62}
}
func (member) ReadCounts() (local, rounds, forwarded uint64) { return 71, 72, 73 }
func (member) Clock() (node.ClockReport, bool)               { return node.ClockReport{}, true }
func (member) WatchStats() watch.Stats {
	return watch.Stats{Streams: 80, Watchers: 81, Behind: 82, Bytes: 83, Pending: 84, Events: 85}
}
func (member) Unsynced() bool   { return true }
func (member) Size() int64      { return 91 }
func (member) SizeInUse() int64 { return 90 }
func (member) Alarms() *alarm.State {
	raised, _, _ := alarm.New().Apply(&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 0xc, Alarm: pb.AlarmType_NOSPACE})
	return raised
}
func (member) Users() *auth.State { return auth.New() }
func (member) ClientRequests() []etcdapi.ClientRequests {
	return []etcdapi.ClientRequests{{Version: "3.7", Count: 95}, {Version: "3.7", Stream: true, Count: 96}}
}

// counts are of a store that has done something of each kind.
func counts() *kv.Counts {
	c := new(kv.Counts)
	for i, n := range []*atomic.Uint64{&c.Ranges, &c.Puts, &c.Deletes, &c.Txns, &c.PutBytes, &c.Revoked} {
		n.Store(uint64(101 + i))
	}
	s := kv.New()
	s.Counts = c
	for id, ttl := range []int64{3, 5, 60} {
		s.Grant(int64(id)+1, ttl)
	}
	return c
}
func (m member) Quota() int64                   { return m.quota }
func (member) Traffic() (received, sent uint64) { return 93, 94 }
func (member) Short() bool                      { return true }

var services = map[string]grpc.ServiceInfo{"etcdserverpb.KV": {Methods: []grpc.MethodInfo{{Name: "Range"}, {Name: "RangeStream", IsServerStream: true}}}}

// versions are those of the API, each with numbers of its own.
var versions = version.Versions{Server: "3.7.3", Cluster: "3.7.0", Storage: "3.5.9"}

func added(t testing.TB, c Config, s Source) *Metrics {
	t.Helper()
	c.Versions = versions
	m := New(c)
	if err := m.Add(s, services); err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns the lines that a scraper gets.
func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("a scrape: %d %s, %v", w.Code, body, err)
	}
	return string(body)
}

func wantLine(t *testing.T, scraped, line string) {
	t.Helper()
	if !slices.Contains(strings.Split(scraped, "\n"), line) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		t.Errorf("metrics lack %q; of that name there is %q", line, regexp.MustCompile(`(?m)^`+name+`\b.*$`).FindAllString(scraped, -1))
	}
}

// Every figure is the member's, under its name.
func TestFiguresAreTheMembers(t *testing.T) {
	m := added(t, Config{}, member{quota: 92})
	m.Synced(3 * time.Millisecond)
	m.Health(true)
	m.Health(true)
	m.Health(false)
	m.Check("readyz", "non_learner", true)
	m.Check("readyz", "non_learner", false)
	got := scrape(t, m)
	for line := range strings.Lines(`etcd_server_has_leader 1
etcd_server_is_leader 0
etcd_server_is_learner 1
etcd_server_leader_changes_seen_total 51
etcd_server_proposals_failed_total 52
etcd_server_proposals_pending 53
etcd_server_proposals_committed_total 31
etcd_server_proposals_applied_total 32
etcd_server_quota_backend_bytes 92
etcd_mvcc_db_total_size_in_bytes 91
etcd_mvcc_db_total_size_in_use_in_bytes 90
etcd_mvcc_range_total 101
etcd_mvcc_put_total 102
etcd_mvcc_delete_total 103
etcd_mvcc_txn_total 104
etcd_debugging_mvcc_total_put_size_in_bytes 105
etcd_debugging_lease_granted_total 3
etcd_debugging_lease_revoked_total 106
etcd_debugging_lease_renewed_total 37
etcd_debugging_server_lease_expired_total 38
etcd_debugging_lease_ttl_total_bucket{le="2"} 0
etcd_debugging_lease_ttl_total_bucket{le="4"} 1
etcd_debugging_lease_ttl_total_bucket{le="8.388608e+06"} 3
etcd_debugging_lease_ttl_total_sum 68
etcd_server_client_requests_total{client_api_version="3.7",type="unary"} 95
etcd_server_client_requests_total{client_api_version="3.7",type="stream"} 96
etcd_debugging_server_alarms{alarm_type="NOSPACE",server_id="c"} 1
etcd_server_slow_apply_total 55
etcd_debugging_mvcc_watch_stream_total 80
etcd_debugging_mvcc_pending_events_total 84
etcd_debugging_mvcc_events_total 85
etcd_network_client_grpc_received_bytes_total 93
etcd_network_client_grpc_sent_bytes_total 94
etcd_debugging_mvcc_keys_total 41
etcd_debugging_mvcc_watcher_total 81
etcd_debugging_mvcc_slow_watcher_total 82
etcd_debugging_mvcc_current_revision 1
etcd_debugging_mvcc_compact_revision -1
tenure_versions 42
tenure_leases 43
tenure_pending_request_bytes 54
tenure_watch_queued_bytes 83
tenure_raft_term 21
tenure_raft_log_bytes 33
tenure_released_index 34
tenure_releases_held_entries 35
tenure_releases_held_seconds 36
tenure_read_lease_held 1
tenure_read_lease_holders 0
tenure_reads_total{by="lease"} 71
tenure_reads_total{by="round"} 72
tenure_reads_total{by="leader"} 73
tenure_memory_short 1
tenure_unsynced 1
tenure_clock_doubted 1
etcd_network_peer_sent_bytes_total{To="b"} 61
etcd_network_peer_received_bytes_total{From="b"} 72
etcd_network_peer_sent_failures_total{To="b"} 62
etcd_network_active_peers{Local="a",Remote="b"} 1
etcd_network_peer_round_trip_time_seconds_bucket{To="b",le="0.0002"} 0
etcd_network_peer_round_trip_time_seconds_bucket{To="b",le="0.0004"} 1
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 0
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004"} 1
etcd_disk_backend_commit_duration_seconds_count 0
etcd_server_health_success 2
etcd_server_health_failures 1
etcd_server_healthcheck{name="non_learner",type="readyz"} 0
etcd_server_healthchecks_total{name="non_learner",status="success",type="readyz"} 1
etcd_server_healthchecks_total{name="non_learner",status="error",type="readyz"} 1
etcd_server_version{server_version="3.7.3"} 1
etcd_cluster_version{cluster_version="3.7"} 1
etcd_server_id{server_id="a"} 1
grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 0
grpc_server_handled_total{grpc_code="OK",grpc_method="RangeStream",grpc_service="etcdserverpb.KV",grpc_type="server_stream"} 0
`) {
		wantLine(t, got, strings.TrimSuffix(line, "\n"))
	}
	wantLine(t, scrape(t, added(t, Config{}, member{})), "etcd_server_quota_backend_bytes +Inf")
	if !math.IsInf(float64(figureOf(t, "etcd_server_quota_backend_bytes").value(&moment{Source: member{}})), 1) {
		t.Error("a member without a quota seems to have one")
	}
}

func figureOf(t *testing.T, name string) figure {
	t.Helper()
	for _, f := range figures {
		if strings.Contains(f.desc.String(), `"`+name+`"`) {
			return f
		}
	}
	t.Fatalf("there is no figure %s", name)
	return figure{}
}

// Calls are counted by their outcome, and their time is measured if that is asked for.
func TestCallsAreCounted(t *testing.T) {
	m := added(t, Config{Extensive: true}, member{})
	unary := func(method string, err error) {
		m.calls.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, err })
	}
	unary("/etcdserverpb.KV/Range", nil)
	unary("/etcdserverpb.KV/Range", nil)
	unary("/etcdserverpb.KV/Range", status.Error(codes.Unavailable, ""))
	unary("/etcdserverpb.KV/Range", status.Error(99, ""))
	unary("/etcdserverpb.KV/Unheard", errors.New("of"))
	err := m.calls.stream(nil, messages{}, &grpc.StreamServerInfo{FullMethod: "/etcdserverpb.KV/RangeStream"}, func(_ any, s grpc.ServerStream) error {
		for range 3 {
			if err := s.SendMsg(nil); err != nil {
				return err
			}
		}
		return s.RecvMsg(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	got := scrape(t, m)
	const of, streamed = `grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"`, `grpc_method="RangeStream",grpc_service="etcdserverpb.KV",grpc_type="server_stream"`
	for _, line := range []string{
		"grpc_server_started_total{" + of + "} 4",
		`grpc_server_handled_total{grpc_code="OK",` + of + "} 2",
		`grpc_server_handled_total{grpc_code="Unavailable",` + of + "} 1",
		`grpc_server_handled_total{grpc_code="Unknown",` + of + "} 1",
		"grpc_server_msg_received_total{" + of + "} 4",
		"grpc_server_msg_sent_total{" + of + "} 2",
		"grpc_server_handling_seconds_count{" + of + "} 4",
		"grpc_server_started_total{" + streamed + "} 1",
		`grpc_server_handled_total{grpc_code="OK",` + streamed + "} 1",
		"grpc_server_msg_received_total{" + streamed + "} 1",
		"grpc_server_msg_sent_total{" + streamed + "} 3",
	} {
		wantLine(t, got, line)
	}
	if basic := scrape(t, added(t, Config{}, member{})); strings.Contains(basic, "grpc_server_handling_seconds") {
		t.Error("the time of calls is measured unasked")
	}
}

type messages struct{ grpc.ServerStream }

func (messages) SendMsg(any) error { return nil }
func (messages) RecvMsg(any) error { return nil }

// A call allocates nothing for its metrics.
func TestCallsAllocateNothing(t *testing.T) {
	for _, extensive := range []bool{false, true} {
		m := added(t, Config{Extensive: extensive}, member{})
		info := &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Range"}
		handle := func(context.Context, any) (any, error) { return nil, nil }
		if n := testing.AllocsPerRun(100, func() { m.calls.unary(context.Background(), nil, info, handle) }); n > 0 {
			t.Errorf("a call allocates %v times for its metrics, extensive %v, want none", n, extensive)
		}
	}
}

// A program's own registry has the member's figures until the member ends, but those of the
// process, which the program may have itself.
func TestAProgramsRegistry(t *testing.T) {
	r := prometheus.NewRegistry()
	names := func() (names []string) {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			names = append(names, f.GetName())
		}
		return names
	}
	m := added(t, Config{Register: r}, member{})
	if got := names(); !slices.Contains(got, "tenure_leases") || slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, "go_") || strings.HasPrefix(n, "process_") }) {
		t.Errorf("the program's registry has %v, want the member's figures and no others", got)
	}
	if err := New(Config{Register: r}).Add(member{}, services); err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
		t.Errorf("a second member in one registry: %v, want what to do", err)
	}
	r.Unregister(m.all[0])
	if err := New(Config{Register: r}).Add(member{}, services); err == nil || slices.Contains(names(), "grpc_server_started_total") {
		t.Errorf("a second member whose first figures find room: %v, and the registry has %v, want none of its figures", err, names())
	}
	if m.Remove(); len(names()) > 0 {
		t.Errorf("after the end of the member the program's registry has %v, want nothing", names())
	}
}

// The version is this module's, also in another program.
func TestBuilt(t *testing.T) {
	for _, c := range []struct {
		info    *debug.BuildInfo
		ok      bool
		version string
		commit  string
	}{
		{nil, false, "unknown", "unknown"},
		{&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, true, "v1.2.3", "abc"},
		{&debug.BuildInfo{Main: debug.Module{Path: "other", Version: "v9"}, Deps: []*debug.Module{{Path: module, Version: "v1.2.4"}, {Path: "third", Version: "v8"}}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, true, "v1.2.4", "unknown"},
	} {
		if version, commit := built(c.info, c.ok); version != c.version || commit != c.commit {
			t.Errorf("a build of %+v is %s of %s, want %s of %s", c.info, version, commit, c.version, c.commit)
		}
	}
}

// alerting are the names in the alerts of etcd's mixin, but those of other programs.
const alerting = `etcd_server_has_leader etcd_server_leader_changes_seen_total etcd_server_proposals_failed_total
etcd_network_peer_sent_failures_total etcd_network_peer_round_trip_time_seconds_bucket
etcd_disk_wal_fsync_duration_seconds_bucket etcd_disk_backend_commit_duration_seconds_bucket
etcd_server_quota_backend_bytes etcd_mvcc_db_total_size_in_bytes etcd_mvcc_db_total_size_in_use_in_bytes
grpc_server_handled_total grpc_server_started_total grpc_server_handling_seconds_bucket
process_open_fds process_max_fds process_resident_memory_bytes`

func TestAlertsOfEtcdFindTheirNames(t *testing.T) {
	got := scrape(t, added(t, Config{Extensive: true}, member{}))
	for name := range strings.FieldsSeq(alerting) {
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(got) {
			t.Errorf("etcd's alerts ask for %s, and there is none", name)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for name, extensive := range map[string]bool{"basic": false, "extensive": true} {
		b.Run(name, func(b *testing.B) {
			m := added(b, Config{Extensive: extensive}, member{})
			info := &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Range"}
			handle := func(context.Context, any) (any, error) { return nil, nil }
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					m.calls.unary(context.Background(), nil, info, handle)
				}
			})
		})
	}
}
