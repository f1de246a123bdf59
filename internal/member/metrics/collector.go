package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
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
	// Size is that of the state in bytes, SizeInUse without its history, Quota what it may be, 0 if there is no bound.
	Size() int64
	SizeInUse() int64
	Quota() int64
	// Traffic is the bytes of messages from clients and to them.
	Traffic() (received, sent uint64)
	// ClientRequests are the calls of clients, and Alarms those that are on.
	ClientRequests() []etcdapi.ClientRequests
	Alarms() *alarm.State
	Users() *auth.State
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

// A collector reads the figures of a member.
type collector struct {
	source Source
	asking chan struct{} // holds a question that has no answer yet
	rtt    *prometheus.HistogramVec
}

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
	for _, f := range peerFigures {
		out <- f.desc
	}
	for _, d := range []*prometheus.Desc{peerKnown, requests, alarms, unpromoted, ttls} {
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
		to := strconv.FormatUint(other.ID, 16)
		out <- prometheus.MustNewConstMetric(peerKnown, gauge, 1, self, to)
		if other.ID == c.source.ID() {
			continue
		}
		st := c.source.PeerStats(other.ID)
		for _, f := range peerFigures {
			labels := []string{to}
			if f.both {
				labels = []string{self, to}
			}
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(st), labels...)
		}
		if st.RTT > 0 {
			c.rtt.WithLabelValues(to).Observe(st.RTT.Seconds())
		}
	}
	c.rtt.Collect(out)
	c.labelled(m, out)
}

func (c *collector) labelled(m *moment, out chan<- prometheus.Metric) {
	for _, r := range c.source.ClientRequests() {
		kind := "unary"
		if r.Stream {
			kind = "stream"
		}
		out <- prometheus.MustNewConstMetric(requests, counter, float64(r.Count), kind, r.Version)
	}
	for _, a := range c.source.Alarms().List(pb.AlarmType_NONE) {
		out <- prometheus.MustNewConstMetric(alarms, gauge, 1, strconv.FormatUint(a.MemberID, 16), a.Alarm.String())
	}
	for reason, n := range m.status.Unpromoted {
		out <- prometheus.MustNewConstMetric(unpromoted, counter, float64(n), reason)
	}
	count, sum, within := m.figures.Counts.TTLs.Told()
	buckets := make(map[float64]uint64, len(within))
	for i, n := range within {
		buckets[float64(uint64(1)<<i)] = n
	}
	out <- prometheus.MustNewConstHistogram(ttls, count, float64(sum), buckets)
}
