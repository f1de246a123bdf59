package main

// These are the flags of etcd that have no meaning here, so that its unit files, environments
// and configuration files carry over. Each is either without effect, which is told, or
// something that its operator counts on for safety: then a value other than those that ask for
// nothing is an error. Etcd's --experimental-NAME is --NAME here. The texts are those of
// docs/flags.md.

// withoutEffect are flags that take a value, with the reason why they have no effect: the setting
// is otherwise here, or is not needed.
var withoutEffect = map[string]string{
	"backend-batch-interval":               noDatabase,
	"backend-batch-limit":                  noDatabase,
	"backend-bbolt-freelist-type":          noDatabase,
	"bootstrap-defrag-threshold-megabytes": noDatabase,
	"client-cert-file":                     gatewayInside,
	"client-key-file":                      gatewayInside,
	"compaction-batch-limit":               compactsAtOnce,
	"compaction-sleep-interval":            compactsAtOnce,
	"discovery-dial-timeout":               noDiscovery,
	"discovery-fallback":                   noDiscovery,
	"discovery-keepalive-time":             noDiscovery,
	"discovery-keepalive-timeout":          noDiscovery,
	"discovery-request-timeout":            noDiscovery,
	"downgrade-check-time":                 "no downgrade of the data is planned ahead here",
	"log-package-levels":                   earlier,
	"logger":                               "there is one, and zap is not linked",
	"max-snapshots":                        "two are kept",
	"max-wals":                             "the log is kept back to the older of two snapshots",
	"proxy-dial-timeout":                   earlier,
	"proxy-failure-wait":                   earlier,
	"proxy-read-timeout":                   earlier,
	"proxy-refresh-interval":               earlier,
	"proxy-write-timeout":                  earlier,
	"raft-read-timeout":                    memberStreams,
	"raft-write-timeout":                   memberStreams,
	"snapshot-catchup-entries":             bytesOfLog,
	"snapshot-count":                       bytesOfLog,
	"v2-deprecation":                       "there is no v2 store",
}

// switchesWithoutEffect are such flags that are true or false. Settings that would make a
// member less safe (no pre-vote, reconfiguration that is not checked) stay safe here.
var switchesWithoutEffect = map[string]string{
	"debug":                              earlier + "; --log-level debug is its successor",
	"discovery-insecure-skip-tls-verify": noDiscovery,
	"discovery-insecure-transport":       noDiscovery,
	"enable-lease-checkpoint":            checkpoints,
	"enable-lease-checkpoint-persist":    checkpoints,
	"enable-v2":                          earlier,
	"initial-election-tick-advance":      "an election timeout counts in full after a start; a cluster of one waits for none",
	"memory-mlock":                       "the state is on the heap, and swap is for the operating system to forbid (MemorySwapMax=0 in a unit)",
	"pre-vote":                           "it is always on",
	"skip-client-san-verification":       "certificates of clients are never compared with addresses; for members there is --peer-skip-client-san-verification",
	"stop-grpc-service-on-defrag":        noDatabase,
	"txn-mode-write-with-shared-buffer":  noDatabase,
}

// Reasons that several flags share.
const (
	bytesOfLog     = "a snapshot is made when the log has a certain size in bytes"
	checkpoints    = "lease checkpoints are always on, and kept"
	compactsAtOnce = "a compaction of memory needs no batches"
	earlier        = "of earlier versions of etcd"
	gatewayInside  = "the gateway for JSON calls the API inside the process, without TLS"
	memberStreams  = "streams between members find a dead peer by heartbeats"
	noDatabase     = "there is no bbolt database"
	noDiscovery    = "there is no discovery service"
	notDiscovered  = "name the members with --initial-cluster: a member that ignored it would begin a cluster of its own"
)

// etcdOnly is a flag whose operator would be wrong about the member if the flag were ignored.
type etcdOnly struct {
	nothing []string // values that ask for nothing, beside the empty one
	instead string
}

var refused = map[string]etcdOnly{
	"proxy":               {[]string{"off", "false"}, "a member is no proxy"},
	"enable-v2v3":         {nil, "there is no v2 API"},
	"discovery":           {nil, notDiscovered},
	"discovery-proxy":     {nil, notDiscovered},
	"discovery-token":     {nil, notDiscovered},
	"discovery-endpoints": {nil, notDiscovered},
	"discovery-user":      {nil, notDiscovered},
	"discovery-password":  {nil, notDiscovered},
	"discovery-cert":      {nil, notDiscovered},
	"discovery-key":       {nil, notDiscovered},
	"discovery-cacert":    {nil, notDiscovered},
}

// nuances are flags that mean the same as in etcd but for a detail.
var nuances = map[string]string{
	"advertise-client-urls":          "by default those of --listen-client-urls, and needed where these are no addresses to dial; http://0.0.0.0:2379 is taken with a warning",
	"config-file":                    "flags and environment win over it, while etcd then ignores them; an unknown key is an error",
	"data-dir":                       "by default NAME.tenure; refused where an etcd has its data: [how to move](cluster.md#move-from-etcd)",
	"force-new-cluster":              "the new cluster has another ID, and a revision raised by a thousand million, and begins after 10 s; once for a data directory, and later starts with it say that it has no effect (docs/cluster.md, After a majority is lost)",
	"initial-advertise-peer-urls":    "one URL, which --initial-cluster may write differently if it leads to the same address; http://0.0.0.0:2380 is taken of a member alone, with a warning",
	"initial-cluster":                "one URL for each name",
	"listen-peer-urls":               "several are all with TLS or all without",
	"log-level":                      "with panic and fatal nothing is logged",
	"listen-client-urls":             "those with https have TLS, and the others are told in a warning; the socket of unix://PATH is for this user alone",
	"listen-client-http-urls":        "with TLS if --listen-client-urls is",
	"socket-reuse-address":           "it is always so",
	"cert-file":                      "no effect at URLs without TLS; a warning names each",
	"peer-cert-file":                 "no effect at URLs without TLS; a warning names each",
	"cors":                           "an origin may lack a port, as browsers leave out that of the scheme",
	"auto-tls":                       "[security](security.md#certificates-that-members-make) has what it is good for",
	"peer-auto-tls":                  "[security](security.md#certificates-that-members-make) has what it is good for",
	"self-signed-cert-validity":      "a start after that makes another",
	"log-format":                     "text, too, which is console; by default text on a terminal and JSON elsewhere",
	"max-learners":                   "it has to be the same at all members",
	"metrics":                        "the figures are in [metrics](metrics.md)",
	"quota-backend-bytes":            "0 is no bound but the memory's, and not 2 GiB",
	"strict-reconfig-check":          "the leader's setting counts",
	"compact-hash-check-time":        "the newest revision is compared, and not that of a compaction",
	"feature-gates":                  "InitialCorruptCheck and CompactHashCheck mean something; the others of etcd have no effect",
	"warning-apply-duration":         "one line a second; 0 tells of none",
	"warning-unary-request-duration": "one line a second, without keys and values; Lock and Campaign, which wait for others, are not told; 0 tells of none",
	"enable-distributed-tracing":     "[traces](tracing.md) has the spans; they carry no keys",
	"unsafe-no-fsync":                "the log, the status and `tenure_unsynced` tell of it",
	"discovery-srv":                  "--initial-advertise-peer-urls has to be as in the record; DNS is asked at the first start; certificates have to name the hosts",
	"wal-dir":                        "[a log of its own disk](cluster.md#its-memory-and-its-disk) says how a log is moved",
	"trusted-ca-file":                "asks clients for a certificate even without --client-cert-auth",
	"peer-trusted-ca-file":           "asks members for a certificate even without --peer-client-cert-auth",
}
