package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
)

// Config says what is gathered.
type Config struct {
	// Extensive adds the time that calls take, by method.
	Extensive bool
	// Register is a registry of the program that has the member. The member's own registry,
	// which /metrics shows, has the figures of the process, too.
	Register prometheus.Registerer
	// Versions are those of the API.
	Versions version.Versions
}

// Metrics are a member's.
type Metrics struct {
	registry *prometheus.Registry
	outside  prometheus.Registerer // nil: none
	all      []prometheus.Collector
	calls    *calls
	health   map[bool]prometheus.Counter
	check    *prometheus.GaugeVec
	checks   *prometheus.CounterVec
	syncs    prometheus.Histogram
	writes   prometheus.Histogram
	written  prometheus.Gauge
	applies  *prometheus.HistogramVec
	applied  map[string]outcomes // by operation
	scrapes  http.Handler
}

// outcomes are the observers of one operation: of failures and of successes.
type outcomes [2]prometheus.Observer

// diskBuckets are etcd's, from a millisecond to eight seconds.
var diskBuckets = prometheus.ExponentialBuckets(0.001, 2, 14)

// New makes metrics for a member that is about to be started. Add says which.
func New(c Config) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(), outside: c.Register, calls: newCalls(c.Extensive), applied: map[string]outcomes{},
		health: map[bool]prometheus.Counter{
			true:  counter("etcd_server_health_success", "Answers to /health that the member is healthy."),
			false: counter("etcd_server_health_failures", "Answers to /health that it is not."),
		},
		check: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcd_server_healthcheck", Help: "The last outcome of a check of /livez or /readyz: 1 if it passed.",
		}, []string{"type", "name"}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_server_healthchecks_total", Help: "Checks of /livez and /readyz, by their outcome.",
		}, []string{"type", "name", "status"}),
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "etcd_disk_wal_fsync_duration_seconds", Help: "Seconds that forced writes of the log take.", Buckets: diskBuckets,
		}),
	}
	m.writes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "etcd_disk_wal_write_duration_seconds", Help: "Seconds that writes of the log take, without forcing them to disk.", Buckets: diskBuckets,
	})
	m.written = prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_disk_wal_write_bytes_total", Help: "Bytes that were written to the log."})
	m.applies = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "etcd_server_apply_duration_seconds", Help: "Seconds that requests take at the state.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20),
	}, []string{"version", "op", "success"})
	m.outcomesOf("Put") // so that the name is there from the start
	commits := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "etcd_disk_backend_commit_duration_seconds", Help: "Always empty: the state is in memory, and nothing is committed to disk beside the log.", Buckets: diskBuckets,
	})
	m.scrapes = promhttp.InstrumentMetricHandler(m.registry, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax}))
	build, commit := built(debug.ReadBuildInfo())
	m.all = append(m.calls.collectors(), m.health[true], m.health[false], m.check, m.checks, m.syncs, m.writes, m.written, m.applies, commits,
		constant("etcd_server_version", "The version of etcd whose API this is.", "server_version", c.Versions.Server),
		constant("etcd_cluster_version", "The version of etcd that all members have in common.", "cluster_version", minor(c.Versions.Cluster)),
		constant("etcd_server_go_version", "The version of Go by which the member was built.", "server_go_version", runtime.Version()),
		constant("tenure_build_info", "The program of the member.", "version", build, "commit", commit))
	return m
}

// minor is the major and the minor number of a version: that is how etcd labels its cluster's.
func minor(version string) string {
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		return parts[0] + "." + parts[1]
	}
	return version
}

// module is the path of this one, which may be a part of another program.
const module = "github.com/tenure-lease/tenure"

// built returns the version and the commit of this module in a program, as far as they are known.
func built(info *debug.BuildInfo, ok bool) (version, commit string) {
	version, commit = "unknown", "unknown"
	if !ok {
		return version, commit
	}
	for _, dep := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if dep.Path == module && dep.Version != "" {
			version = dep.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Path == module {
			commit = s.Value
		}
	}
	return version, commit
}

// constant is 1 under labels, of names and values in turn.
func constant(name, help string, labels ...string) prometheus.Collector {
	of := prometheus.Labels{}
	for i := 0; i < len(labels); i += 2 {
		of[labels[i]] = labels[i+1]
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: of})
	g.Set(1)
	return g
}

// Add has the figures of a member gathered, and those of the calls of a server, whose services are
// all there. An error says that the program's own registry has another member's already.
func (m *Metrics) Add(s Source, services map[string]grpc.ServiceInfo) error {
	m.calls.prepare(services)
	m.all = append(m.all, newCollector(s),
		constant("etcd_server_id", "The member's ID.", "server_id", strconv.FormatUint(s.ID(), 16)))
	m.registry.MustRegister(append(m.all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	if m.outside == nil {
		return nil
	}
	for i, c := range m.all {
		if err := m.outside.Register(c); err != nil {
			for _, c := range m.all[:i] {
				m.outside.Unregister(c)
			}
			return fmt.Errorf("metrics: register in the program's registry: %w; two members of a process need a prometheus.WrapRegistererWith each", err)
		}
	}
	return nil
}

// Remove takes the figures out of the program's registry.
func (m *Metrics) Remove() {
	if m.outside != nil {
		for _, c := range m.all {
			m.outside.Unregister(c)
		}
	}
}

// Options count the calls of a gRPC server. They must come before others that answer calls.
func (m *Metrics) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(m.calls.unary), grpc.ChainStreamInterceptor(m.calls.stream)}
}

// scrapesMax is how many may ask for metrics at a time: each answer is made in memory.
const scrapesMax = 8

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return m.scrapes
}

// Wrote counts a write of the log.
func (m *Metrics) Wrote(bytes int, took time.Duration) {
	m.written.Add(float64(bytes))
	m.writes.Observe(took.Seconds())
}

// Applied counts a request at the state. One goroutine calls it. A request that etcd has no name for does not count.
func (m *Metrics) Applied(operation string, success bool, took time.Duration) {
	if operation == "" {
		return
	}
	outcome := 0
	if success {
		outcome = 1
	}
	m.outcomesOf(operation)[outcome].Observe(took.Seconds())
}

// outcomesOf returns the observers of an operation, which has figures from then on.
func (m *Metrics) outcomesOf(operation string) outcomes {
	of, ok := m.applied[operation]
	if !ok {
		of = outcomes{m.applies.WithLabelValues("v3", operation, "false"), m.applies.WithLabelValues("v3", operation, "true")}
		m.applied[operation] = of
	}
	return of
}

// Synced counts a forced write of the log.
func (m *Metrics) Synced(took time.Duration) { m.syncs.Observe(took.Seconds()) }

// Health counts an answer to /health.
func (m *Metrics) Health(healthy bool) { m.health[healthy].Inc() }

// Check counts a check of /livez or /readyz.
func (m *Metrics) Check(kind, name string, passed bool) {
	value, outcome := 1.0, "success"
	if !passed {
		value, outcome = 0, "error"
	}
	m.check.WithLabelValues(kind, name).Set(value)
	m.checks.WithLabelValues(kind, name, outcome).Inc()
}
