package metrics

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// A Source is a member whose figures are gathered.
type Source interface {
	ID() uint64
	Leader() (id, term uint64, lostFor time.Duration)
	Members() []*pb.Member
	Status() (st node.Status, ok bool)
	Stats() kv.Stats
	View() kv.View
	Figures() node.Figures
	PeerStats(id uint64) peer.Stats
	ReadCounts() (local, rounds, forwarded uint64)
	Clock() (r node.ClockReport, doubted bool)
	// Unsynced reports whether the member leaves out the syncs of its disk.
	Unsynced() bool
	WatchStats() watch.Stats
	// Size is that of the state in bytes, Quota what it may be, 0 if there is no bound.
	Size() int64
	Quota() int64
	// Traffic is the bytes of messages from clients and to them.
	Traffic() (received, sent uint64)
	// Short reports whether memory is short.
	Short() bool
}

// statusPatience is how long figures wait for the member's stepping goroutine, which may wait for
// a disk that hangs. The figures without it are those that tell of the disk.
const statusPatience = time.Second

// A moment is what a member knows of itself at one time.
type moment struct {
	Source
	status                    node.Status
	knows                     bool // the status
	figures                   node.Figures
	stats                     kv.Stats
	watches                   watch.Stats
	leader, term              uint64
	local, rounds, forwarded  uint64
	received, sent            uint64
	doubted, learner          bool
	revision, compactRevision int64
}

func (c *collector) moment() *moment {
	m := &moment{Source: c.source, figures: c.source.Figures(), stats: c.source.Stats(), watches: c.source.WatchStats()}
	m.leader, m.term, _ = c.source.Leader()
	m.local, m.rounds, m.forwarded = c.source.ReadCounts()
	m.received, m.sent = c.source.Traffic()
	_, m.doubted = c.source.Clock()
	view := c.source.View()
	m.revision, m.compactRevision = view.Revision(), view.CompactRevision()
	for _, other := range c.source.Members() {
		m.learner = m.learner || other.ID == c.source.ID() && other.IsLearner
	}
	m.status, m.knows = c.status()
	return m
}

// status asks the member, unless an earlier question has no answer yet.
func (c *collector) status() (st node.Status, ok bool) {
	select {
	case c.asking <- struct{}{}:
	default:
		return st, false
	}
	type told struct {
		st node.Status
		ok bool
	}
	answer := make(chan told, 1)
	go func() {
		st, ok := c.source.Status()
		answer <- told{st, ok}
		<-c.asking
	}()
	patience := time.NewTimer(statusPatience)
	defer patience.Stop()
	select {
	case t := <-answer:
		return t.st, t.ok
	case <-patience.C:
		return st, false
	}
}

// A figure is one number of a moment.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*moment) float64
	asked bool // it needs the status
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

func plain(kind prometheus.ValueType, name, help string, value func(*moment) float64) figure {
	return figure{desc: prometheus.NewDesc(name, help, nil, nil), kind: kind, value: value}
}

// asking is a figure that only the member's stepping goroutine knows.
func asking(kind prometheus.ValueType, name, help string, value func(*moment) float64) figure {
	f := plain(kind, name, help, value)
	f.asked = true
	return f
}

// read is a count of answered reads, by how they were confirmed.
func read(by string, value func(*moment) float64) figure {
	return figure{desc: prometheus.NewDesc("tenure_reads_total", "Linearizable reads that were answered, by what confirmed them: this member's read lease, a round that it made as the leader, or a question to the leader.", nil, prometheus.Labels{"by": by}), kind: counter, value: value}
}

var figures = []figure{
	plain(gauge, "etcd_server_has_leader", "1 if a leader is known.", func(m *moment) float64 { return yes(m.leader != 0) }),
	plain(gauge, "etcd_server_is_leader", "1 if this member leads.", func(m *moment) float64 { return yes(m.leader == m.ID()) }),
	plain(gauge, "etcd_server_is_learner", "1 if this member has no vote.", func(m *moment) float64 { return yes(m.learner) }),
	plain(counter, "etcd_server_leader_changes_seen_total", "Times that this member learned of another leader.", func(m *moment) float64 { return float64(m.figures.LeaderChanges) }),
	plain(counter, "etcd_server_proposals_failed_total", "Requests whose outcome was not known in time.", func(m *moment) float64 { return float64(m.figures.Failed) }),
	plain(gauge, "etcd_server_proposals_pending", "Requests that wait to be replicated.", func(m *moment) float64 { return float64(m.figures.Pending) }),
	asking(gauge, "etcd_server_proposals_committed_total", "The index of the last committed entry.", func(m *moment) float64 { return float64(m.status.Commit) }),
	asking(gauge, "etcd_server_proposals_applied_total", "The index of the last entry that is in the state.", func(m *moment) float64 { return float64(m.status.Applied) }),
	plain(gauge, "etcd_server_quota_backend_bytes", "Bytes that the state may have; +Inf without a bound.", func(m *moment) float64 {
		if q := m.Quota(); q > 0 {
			return float64(q)
		}
		return math.Inf(1)
	}),
	plain(gauge, "etcd_mvcc_db_total_size_in_bytes", "Bytes of the state, history included.", func(m *moment) float64 { return float64(m.Size()) }),
	plain(gauge, "etcd_mvcc_db_total_size_in_use_in_bytes", "The same: memory is given back as history is compacted.", func(m *moment) float64 { return float64(m.Size()) }),
	plain(counter, "etcd_network_client_grpc_received_bytes_total", "Bytes of messages from clients.", func(m *moment) float64 { return float64(m.received) }),
	plain(counter, "etcd_network_client_grpc_sent_bytes_total", "Bytes of messages to clients.", func(m *moment) float64 { return float64(m.sent) }),
	plain(gauge, "etcd_debugging_mvcc_keys_total", "Keys that exist.", func(m *moment) float64 { return float64(m.stats.Keys) }),
	plain(gauge, "etcd_debugging_mvcc_watcher_total", "Watches.", func(m *moment) float64 { return float64(m.watches.Watchers) }),
	plain(gauge, "etcd_debugging_mvcc_slow_watcher_total", "Watches that are behind and read from the log.", func(m *moment) float64 { return float64(m.watches.Behind) }),
	plain(gauge, "etcd_debugging_mvcc_current_revision", "The revision of the visible state.", func(m *moment) float64 { return float64(m.revision) }),
	plain(gauge, "etcd_debugging_mvcc_compact_revision", "The revision of the last compaction.", func(m *moment) float64 { return float64(m.compactRevision) }),
	plain(gauge, "tenure_versions", "Versions of keys that are kept.", func(m *moment) float64 { return float64(m.stats.Versions) }),
	plain(gauge, "tenure_leases", "Leases that exist.", func(m *moment) float64 { return float64(m.stats.Leases) }),
	plain(gauge, "tenure_pending_request_bytes", "Bytes of requests that wait to be replicated.", func(m *moment) float64 { return float64(m.figures.PendingBytes) }),
	plain(gauge, "tenure_watch_queued_bytes", "Bytes of events that wait in memory for slow watchers.", func(m *moment) float64 { return float64(m.watches.Bytes) }),
	plain(gauge, "tenure_raft_term", "The term of the leader.", func(m *moment) float64 { return float64(m.term) }),
	asking(gauge, "tenure_raft_log_bytes", "Bytes of the log in memory.", func(m *moment) float64 { return float64(m.status.TailBytes) }),
	asking(gauge, "tenure_released_index", "The index of the last entry that clients may see.", func(m *moment) float64 { return float64(m.status.ReadLeases.Released) }),
	asking(gauge, "tenure_releases_held_entries", "Committed entries that wait for holders of read leases.", func(m *moment) float64 { return float64(m.status.ReadLeases.Held) }),
	asking(gauge, "tenure_releases_held_seconds", "For how long the first of them waits.", func(m *moment) float64 { return m.status.ReadLeases.HeldFor.Seconds() }),
	asking(gauge, "tenure_read_lease_held", "1 if this member may answer linearizable reads by itself.", func(m *moment) float64 { return yes(m.status.ReadLeases.Left != 0) }),
	asking(gauge, "tenure_read_lease_holders", "Read leases that this member knows of.", func(m *moment) float64 { return float64(len(m.status.ReadLeases.Holdings)) }),
	read("lease", func(m *moment) float64 { return float64(m.local) }),
	read("round", func(m *moment) float64 { return float64(m.rounds) }),
	read("leader", func(m *moment) float64 { return float64(m.forwarded) }),
	plain(gauge, "tenure_memory_short", "1 while writes and large reads are refused for lack of memory.", func(m *moment) float64 { return yes(m.Short()) }),
	plain(gauge, "tenure_unsynced", "1 if this member does not sync its disk.", func(m *moment) float64 { return yes(m.Unsynced()) }),
	plain(gauge, "tenure_clock_doubted", "1 while this machine's clock is not trusted.", func(m *moment) float64 { return yes(m.doubted) }),
}

// A collector reads the figures of a member.
type collector struct {
	source Source
	asking chan struct{} // holds a question that has no answer yet
	rtt    *prometheus.HistogramVec
}

// Figures of the connections to other members.
var (
	peerSent     = prometheus.NewDesc("etcd_network_peer_sent_bytes_total", "Bytes that were sent to a member.", []string{"To"}, nil)
	peerReceived = prometheus.NewDesc("etcd_network_peer_received_bytes_total", "Bytes that were received from a member.", []string{"From"}, nil)
	peerFailures = prometheus.NewDesc("etcd_network_peer_sent_failures_total", "Messages to a member that were dropped.", []string{"To"}, nil)
	peerActive   = prometheus.NewDesc("etcd_network_active_peers", "1 if messages to a member can be sent.", []string{"Local", "Remote"}, nil)
)

func newCollector(s Source) *collector {
	return &collector{source: s, asking: make(chan struct{}, 1), rtt: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "etcd_network_peer_round_trip_time_seconds", Help: "The round trip to a member, smoothed, at each scrape.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	}, []string{"To"})}
}

// Describe lists the figures.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- f.desc
	}
	for _, d := range []*prometheus.Desc{peerSent, peerReceived, peerFailures, peerActive} {
		out <- d
	}
	c.rtt.Describe(out)
}

// Collect reads the figures.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.moment()
	for _, f := range figures {
		if !f.asked || m.knows {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(m))
		}
	}
	self := strconv.FormatUint(c.source.ID(), 16)
	for _, other := range c.source.Members() {
		if other.ID == c.source.ID() {
			continue
		}
		to, st := strconv.FormatUint(other.ID, 16), c.source.PeerStats(other.ID)
		out <- prometheus.MustNewConstMetric(peerSent, counter, float64(st.BytesSent+st.StreamBytesSent), to)
		out <- prometheus.MustNewConstMetric(peerReceived, counter, float64(st.BytesReceived+st.StreamBytesReceived), to)
		out <- prometheus.MustNewConstMetric(peerFailures, counter, float64(st.MessagesDropped), to)
		out <- prometheus.MustNewConstMetric(peerActive, gauge, yes(st.Connected), self, to)
		if st.RTT > 0 {
			c.rtt.WithLabelValues(to).Observe(st.RTT.Seconds())
		}
	}
	c.rtt.Collect(out)
}
