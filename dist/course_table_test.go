package dist

const (
	instances = `{instance="a", job="tenure"}`
	ofJob     = `{job="tenure"}`
)

// courses are samples by the alerts that they are about.
var courses = map[string][]course{
	"etcdMembersDown": {
		{"one of three is down for ten minutes", `up{instance="a"} 1x30; up{instance="b"} 1x30; up{instance="c"} 1x5 0x9 1x14`, 30, ofJob},
		{"one is down for four minutes", `up{instance="a"} 1x30; up{instance="b"} 1x30; up{instance="c"} 1x5 0x3 1x20`, 30, ""},
		{"one of another job is down", `up{instance="a", job="other"} 0x30; up{instance="b"} 1x30`, 30, ""},
	},
	"etcdInsufficientMembers": {
		{"two of three are down", `up{instance="a"} 1x30; up{instance="b"} 1x5 0x24; up{instance="c"} 1x5 0x24`, 30, ofJob},
		{"three of five are left", `up{instance="a"} 1x30; up{instance="b"} 1x30; up{instance="c"} 1x30; up{instance="d"} 0x30; up{instance="e"} 0x30`, 30, ""},
		{"one of three is down", `up{instance="a"} 1x30; up{instance="b"} 1x30; up{instance="c"} 0x30`, 30, ""},
	},
	"etcdNoLeader": {
		{"no leader for two minutes", `etcd_server_has_leader{instance="a"} 1x5 0x2 1x5`, 12, instances},
		{"no leader at one scrape", `etcd_server_has_leader{instance="a"} 1x5 0 1x5`, 12, ""},
	},
	"etcdHighNumberOfLeaderChanges": {
		{"five in an hour", `etcd_server_leader_changes_seen_total{instance="a"} 1x70 2 2 3 3 4 4 5 5 6x60; etcd_server_leader_changes_seen_total{instance="b"} 1x140`, 140, ofJob},
		{"four in an hour", `etcd_server_leader_changes_seen_total{instance="a"} 1x70 2 2 3 3 4 4 5x60`, 130, ""},
		{"one each hour", `etcd_server_leader_changes_seen_total{instance="a"} 1x59 2x59 3x59 4x59 5x59`, 299, ""},
	},
	"etcdHighNumberOfFailedProposals": {
		{"two a minute", `etcd_server_proposals_failed_total{instance="a"} 0x10 0+2x20`, 30, instances},
		{"four at a time, once", `etcd_server_proposals_failed_total{instance="a"} 0x10 4x40`, 50, ""},
	},
	"etcdHighNumberOfFailedGRPCRequests": {
		{
			"one put in fifty fails, and no range",
			`grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="OK"} 0+98x40
			grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="Unavailable"} 0+2x40
			grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Range", grpc_code="OK"} 0+100x40`, 40,
			`{grpc_method="Put", grpc_service="KV", instance="a", job="tenure"}`,
		},
		{
			"one in two hundred fails",
			`grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="OK"} 0+199x40
			grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="Unavailable"} 0+1x40`, 40, "",
		},
		{
			"all fail for reasons of their clients",
			`grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="NotFound"} 0+99x40
			grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="Canceled"} 0+99x40`, 40, "",
		},
		{
			"all fail for five minutes",
			`grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="OK"} 0+100x9 1000x3 1000+100x40
			grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="Unavailable"} 0x9 0+100x3 300x40`, 50, "",
		},
	},
	"etcdGRPCRequestsSlow": {
		{"one call in ten takes a quarter of a second", slow("grpc_server_handling_seconds", `grpc_service="KV", grpc_method="Put", grpc_type="unary"`, "0.1", "0.25"), 40, `{grpc_method="Put", grpc_service="KV", instance="a", job="tenure"}`},
		{"streams last", slow("grpc_server_handling_seconds", `grpc_service="Watch", grpc_method="Watch", grpc_type="bidi_stream"`, "0.1", "0.25"), 40, ""},
		{"one call in ten takes a tenth of a second", slow("grpc_server_handling_seconds", `grpc_service="KV", grpc_method="Put", grpc_type="unary"`, "0.05", "0.1"), 40, ""},
	},
	"etcdMemberCommunicationSlow": {
		{"a fifth of a second", slow("etcd_network_peer_round_trip_time_seconds", `To="b"`, "0.1024", "0.2048"), 40, `{To="b", instance="a", job="tenure"}`},
		{"a tenth of a second", slow("etcd_network_peer_round_trip_time_seconds", `To="b"`, "0.0512", "0.1024"), 40, ""},
	},
	"etcdHighFsyncDurations": {
		{"a quarter of a second", slow("etcd_disk_wal_fsync_duration_seconds", ``, "0.128", "0.256"), 40, instances},
		{"thirty milliseconds", slow("etcd_disk_wal_fsync_duration_seconds", ``, "0.016", "0.032"), 40, ""},
	},
	"etcdDatabaseQuotaLowSpace": {
		{"96 % are used", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 96x20; etcd_server_quota_backend_bytes{instance="a"} 100x20`, 20, instances},
		{"94 % are used", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 94x20; etcd_server_quota_backend_bytes{instance="a"} 100x20`, 20, ""},
		{"there is no quota", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 1e12x20; etcd_server_quota_backend_bytes{instance="a"} Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf`, 10, ""},
	},
	"etcdExcessiveDatabaseGrowth": {
		{"it is full in an hour", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 0+1000x260; etcd_server_quota_backend_bytes{instance="a"} 320000x260`, 260, instances},
		{"it is full in six hours", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 0+1000x260; etcd_server_quota_backend_bytes{instance="a"} 620000x260`, 260, ""},
		{"it is large and does not grow", `etcd_mvcc_db_total_size_in_bytes{instance="a"} 300000x260; etcd_server_quota_backend_bytes{instance="a"} 320000x260`, 260, ""},
	},
	"TenureAlarm": {
		{"an alarm is on, as all members tell", `etcd_debugging_server_alarms{instance="a", server_id="c", alarm_type="NOSPACE"} _x5 1x9; etcd_debugging_server_alarms{instance="b", server_id="c", alarm_type="NOSPACE"} _x6 1x8`, 14, `{alarm_type="NOSPACE", job="tenure", server_id="c"}`},
		{"etcd counts it as none", `etcd_debugging_server_alarms{instance="a", server_id="c", alarm_type="NOSPACE"} 0x14`, 14, ""},
	},
	"TenureMemoryShort": {
		{"for two minutes", `tenure_memory_short{instance="a"} 0x5 1x2 0x5`, 12, instances},
		{"at one scrape", `tenure_memory_short{instance="a"} 0x5 1 0x5`, 12, ""},
	},
	"TenureWritesHeld": {
		{"half a minute and more", `tenure_releases_held_seconds{instance="a"} 0x5 30 90 0x5`, 12, instances},
		{"ten seconds each time", `tenure_releases_held_seconds{instance="a"} 10x12`, 12, ""},
	},
	"TenureClockDoubted": {
		{"for twenty minutes", `tenure_clock_doubted{instance="a"} 0x5 1x20 0x5`, 30, instances},
		{"for ten minutes", `tenure_clock_doubted{instance="a"} 0x5 1x10 0x15`, 30, ""},
	},
	"TenureSlowWatchers": {
		{"for forty minutes", `etcd_debugging_mvcc_slow_watcher_total{instance="a"} 0x5 1x20 3x20`, 45, instances},
		{"for twenty minutes, twice", `etcd_debugging_mvcc_slow_watcher_total{instance="a"} 0x5 1x20 0 1x20`, 47, ""},
	},
	"TenureProposalsPending": {
		{"four hundred for a quarter of an hour", `etcd_server_proposals_pending{instance="a"} 0x5 400x15`, 20, instances},
		{"four hundred now and then", `etcd_server_proposals_pending{instance="a"} 400x4 10 400x4 10 400x4 10 400x4 10`, 20, ""},
	},
	"TenureVersionsDiffer": {
		{"for a day", `tenure_build_info{instance="a", version="v1", commit="x"} 1x1500; tenure_build_info{instance="b", version="v2", commit="y"} 1x1500`, 1500, ofJob},
		{"for an afternoon", `tenure_build_info{instance="a", version="v1", commit="x"} 1x300; tenure_build_info{instance="b", version="v2", commit="y"} 1x1500; tenure_build_info{instance="a", version="v2", commit="y"} _x300 1x1200`, 1500, ""},
	},
}

// slow is a histogram of which nine in ten are within the first of two bounds, and all within the second.
func slow(name, of, within, all string) string {
	if of != "" {
		of += ", "
	}
	of += `instance="a", le="`
	return name + `_bucket{` + of + within + `"} 0+90x40; ` + name + `_bucket{` + of + all + `"} 0+100x40; ` + name + `_bucket{` + of + `+Inf"} 0+100x40`
}

// healthy is a cluster that serves, with a leader that changed once.
const healthy = `
up{instance="a"} 1x360; up{instance="b"} 1x360; up{instance="c"} 1x100 0 0 1x256
etcd_server_has_leader{instance="a"} 1x360; etcd_server_has_leader{instance="b"} 1x200 0 1x158
etcd_server_leader_changes_seen_total{instance="a"} 1x200 2x158
etcd_server_proposals_failed_total{instance="a"} 0x200 2x158
etcd_server_proposals_pending{instance="a"} 0x100 500 3x257
grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="OK"} 0+600x360
grpc_server_handled_total{instance="a", grpc_service="KV", grpc_method="Put", grpc_code="Unavailable"} 0x200 3x158
grpc_server_handling_seconds_bucket{instance="a", grpc_service="KV", grpc_method="Put", grpc_type="unary", le="0.005"} 0+599x360
grpc_server_handling_seconds_bucket{instance="a", grpc_service="KV", grpc_method="Put", grpc_type="unary", le="0.25"} 0+600x360
grpc_server_handling_seconds_bucket{instance="a", grpc_service="KV", grpc_method="Put", grpc_type="unary", le="+Inf"} 0+600x360
etcd_network_peer_round_trip_time_seconds_bucket{instance="a", To="b", le="0.0004"} 0+1x360
etcd_network_peer_round_trip_time_seconds_bucket{instance="a", To="b", le="+Inf"} 0+1x360
etcd_disk_wal_fsync_duration_seconds_bucket{instance="a", le="0.004"} 0+598x360
etcd_disk_wal_fsync_duration_seconds_bucket{instance="a", le="0.128"} 0+600x360
etcd_disk_wal_fsync_duration_seconds_bucket{instance="a", le="+Inf"} 0+600x360
etcd_mvcc_db_total_size_in_bytes{instance="a"} 100000+10x360
etcd_server_quota_backend_bytes{instance="a"} 2147483648x360
tenure_memory_short{instance="a"} 0x360
tenure_releases_held_seconds{instance="a"} 0x360
tenure_clock_doubted{instance="a"} 0x50 1x5 0x304
etcd_debugging_mvcc_slow_watcher_total{instance="a"} 0x50 2x5 0x304
tenure_build_info{instance="a", version="v1", commit="x"} 1x360; tenure_build_info{instance="b", version="v1", commit="x"} 1x360
`
