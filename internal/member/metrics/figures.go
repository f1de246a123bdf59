package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

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

// counted is a counter of this process.
func counted(name, help string, value func(*moment) uint64) figure {
	return plain(counter, name, help, func(m *moment) float64 { return float64(value(m)) })
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
	counted("etcd_server_heartbeat_send_failures_total", "Heartbeats that this member, as the leader, sent more than two intervals after the one before.", func(m *moment) uint64 { return m.figures.LateBeats }),
	counted("etcd_server_slow_read_indexes_total", "Questions for linearizable reads that the leader did not answer in time.", func(m *moment) uint64 { return m.figures.SlowReads }),
	counted("etcd_server_read_indexes_failed_total", "Questions for linearizable reads without an answer, because there was no leader, or another one.", func(m *moment) uint64 { return m.figures.FailedReads }),
	plain(gauge, "etcd_server_snapshot_apply_in_progress_total", "1 while the state is read from a snapshot that the leader sent.", func(m *moment) float64 { return yes(m.figures.Restoring) }),
	asking(counter, "etcd_server_learner_promote_successes", "Learners that got a vote, while this member led.", func(m *moment) float64 { return float64(m.status.Promoted) }),
	plain(gauge, "etcd_debugging_auth_revision", "The revision of users and roles.", func(m *moment) float64 { return float64(m.Users().Revision()) }),
	plain(gauge, "etcd_server_quota_backend_bytes", "Bytes that the state may have; +Inf without a bound.", func(m *moment) float64 {
		if q := m.Quota(); q > 0 {
			return float64(q)
		}
		return math.Inf(1)
	}),
	plain(gauge, "etcd_mvcc_db_total_size_in_bytes", "Bytes of the state, history included.", func(m *moment) float64 { return float64(m.Size()) }),
	plain(gauge, "etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of the newest state alone: what a compaction would leave.", func(m *moment) float64 { return float64(m.SizeInUse()) }),
	counted("etcd_mvcc_range_total", "Reads of a key or a range, those within other requests included.", func(m *moment) uint64 { return m.figures.Counts.Ranges.Load() }),
	counted("etcd_mvcc_put_total", "Puts.", func(m *moment) uint64 { return m.figures.Counts.Puts.Load() }),
	counted("etcd_mvcc_delete_total", "Deletes of a key or a range.", func(m *moment) uint64 { return m.figures.Counts.Deletes.Load() }),
	counted("etcd_mvcc_txn_total", "Requests that did more than one of these.", func(m *moment) uint64 { return m.figures.Counts.Txns.Load() }),
	plain(gauge, "etcd_debugging_mvcc_total_put_size_in_bytes", "Bytes of keys and values that were put.", func(m *moment) float64 { return float64(m.figures.Counts.PutBytes.Load()) }),
	counted("etcd_debugging_lease_granted_total", "Leases that were granted.", func(m *moment) uint64 { return m.figures.Counts.Granted.Load() }),
	counted("etcd_debugging_lease_revoked_total", "Leases that ended, those that expired included.", func(m *moment) uint64 { return m.figures.Counts.Revoked.Load() }),
	asking(counter, "etcd_debugging_lease_renewed_total", "Renewals that this member answered as the leader.", func(m *moment) float64 { return float64(m.status.Renewals) }),
	asking(counter, "etcd_debugging_server_lease_expired_total", "Leases that expired while this member led.", func(m *moment) float64 { return float64(m.status.Expired) }),
	counted("etcd_server_slow_apply_total", "Entries that took longer to apply than --warning-apply-duration.", func(m *moment) uint64 { return m.figures.Slow }),
	plain(counter, "etcd_network_client_grpc_received_bytes_total", "Bytes of messages from clients.", func(m *moment) float64 { return float64(m.received) }),
	plain(counter, "etcd_network_client_grpc_sent_bytes_total", "Bytes of messages to clients.", func(m *moment) float64 { return float64(m.sent) }),
	plain(gauge, "etcd_debugging_mvcc_keys_total", "Keys that exist.", func(m *moment) float64 { return float64(m.stats.Keys) }),
	plain(gauge, "etcd_debugging_mvcc_watch_stream_total", "Streams of watches.", func(m *moment) float64 { return float64(m.watches.Streams) }),
	plain(gauge, "etcd_debugging_mvcc_pending_events_total", "Events that wait in memory for their watchers.", func(m *moment) float64 { return float64(m.watches.Pending) }),
	counted("etcd_debugging_mvcc_events_total", "Events that were sent to watchers.", func(m *moment) uint64 { return m.watches.Events }),
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
