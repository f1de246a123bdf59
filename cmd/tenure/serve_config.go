package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// serveOptions are etcd's flags, as far as they have a meaning here, and those of
// read leases.
type serveOptions struct {
	configFile string

	name, dataDir, logDir                   string
	listenPeerURLs, listenClientURLs        []string
	http                                    httpOptions
	sockets                                 listenOptions
	discovery                               discovery
	hosts                                   hosts
	auth                                    authOptions
	advertisePeerURLs, advertiseClientURLs  []string
	initialCluster, clusterState            string
	clusterToken                            string
	heartbeatMillis, electionMillis         int
	maxRequestBytes, maxTxnOps, maxLearners int
	maxStreams                              uint32
	quotaBytes                              int64
	keepAliveMin, keepAliveInterval         time.Duration
	keepAliveTimeout, watchProgressInterval time.Duration
	warnCall, warnApply                     time.Duration
	unsafeNoSync, forceNewCluster           bool
	compactionMode, compactionRetention     string
	readLease, readLeaseOrder               string
	readLeaseChanges                        string
	readLeaseTTL                            time.Duration
	client, peer                            tlsOptions
	tls                                     tlsLimits
	log                                     cli.Log
	outputs                                 cli.Outputs
	checks                                  checkOptions
	tracing                                 tracingOptions
}

const (
	defaultName      = "default"
	defaultPeerURL   = "http://localhost:2380"
	defaultClientURL = "http://localhost:2379"
)

func (o *serveOptions) register(f *pflag.FlagSet) {
	f.SortFlags = false
	o.hosts = net.DefaultResolver
	f.StringVar(&o.configFile, "config-file", "", "YAML `file` with the names of these flags as keys")
	f.StringVar(&o.name, "name", defaultName, "this member's `name`, one of those in --initial-cluster")
	f.StringVar(&o.dataDir, "data-dir", "", "`directory` of this member's log and snapshots (default NAME.tenure)")
	f.StringVar(&o.logDir, "wal-dir", "", "`directory` of this member's log alone, on another disk, say (default in --data-dir)")
	f.StringSliceVar(&o.listenPeerURLs, "listen-peer-urls", []string{defaultPeerURL}, "`URLs` to listen on for other members")
	f.StringSliceVar(&o.listenClientURLs, "listen-client-urls", []string{defaultClientURL}, "`URLs` to listen on for clients")
	f.StringSliceVar(&o.advertisePeerURLs, "initial-advertise-peer-urls", []string{defaultPeerURL}, "this member's `URL` for the other members")
	f.StringSliceVar(&o.advertiseClientURLs, "advertise-client-urls", nil, "this member's `URLs` for clients (default those of --listen-client-urls)")
	f.StringVar(&o.initialCluster, "initial-cluster", "", "all members, the same on each: `name=url,name=url,…` (default NAME=<initial-advertise-peer-urls>); without effect at a member that has joined")
	f.StringVar(&o.clusterState, "initial-cluster-state", "new", "`state` of the cluster: new, or existing for a member that was added to a cluster that runs (tenure member add)")
	f.StringVar(&o.clusterToken, "initial-cluster-token", "etcd-cluster", "`text` that tells clusters with equal URLs apart")
	f.IntVar(&o.maxLearners, "max-learners", 1, "`number` of members that learn and do not vote, at most; the same on each member")
	f.IntVar(&o.heartbeatMillis, "heartbeat-interval", 100, "`milliseconds` between heartbeats, the same on each member")
	f.IntVar(&o.electionMillis, "election-timeout", 1000, "`milliseconds` without a heartbeat until an election, the same on each member")
	f.IntVar(&o.maxTxnOps, "max-txn-ops", 128, "`number` of operations in a transaction at most")
	f.IntVar(&o.maxRequestBytes, "max-request-bytes", 3<<19, "`bytes` of a request at most")
	f.Uint32Var(&o.maxStreams, "max-concurrent-streams", 0, "`number` of calls in flight on one connection at most (default no limit)")
	f.Int64Var(&o.quotaBytes, "quota-backend-bytes", 0, "`bytes` of state, history included, beyond which the alarm NOSPACE is raised and writes are refused (default and most: six tenths of the memory)")
	f.DurationVar(&o.keepAliveMin, "grpc-keepalive-min-time", 5*time.Second, "how often a client may ping at most")
	f.DurationVar(&o.keepAliveInterval, "grpc-keepalive-interval", 2*time.Hour, "how often an idle client is pinged")
	f.DurationVar(&o.keepAliveTimeout, "grpc-keepalive-timeout", 20*time.Second, "how long a pinged client may take to answer")
	f.DurationVar(&o.watchProgressInterval, "watch-progress-notify-interval", 10*time.Minute, "how often a quiet watch reports progress, if it asked for that")
	f.DurationVar(&o.warnCall, "warning-unary-request-duration", 300*time.Millisecond, "how long a call may take until the log tells of it; 0 tells of none")
	f.DurationVar(&o.warnApply, "warning-apply-duration", 100*time.Millisecond, "how long a write may take to be applied until the log tells of it; 0 tells of none")
	f.BoolVar(&o.forceNewCluster, "force-new-cluster", false, "begin a new cluster, of this member alone, from its data directory: for one whose majority is lost for good")
	f.BoolVar(&o.unsafeNoSync, "unsafe-no-fsync", false, "do not wait for the disk: a crash of this machine may lose acknowledged writes, and this member's votes with them")
	f.StringVar(&o.compactionMode, "auto-compaction-mode", "periodic", "`mode` of compaction: periodic or revision")
	f.StringVar(&o.compactionRetention, "auto-compaction-retention", "0", "history to keep: a `duration` (or hours), or revisions; 0 keeps all")
	f.StringVar(&o.readLease, "read-lease", string(quorumlease.Leader), "`policy` that a new cluster begins with: which members answer linearizable reads without asking others: off, leader or all, and with --read-lease-order key also static, quorum or cost; tenure read-lease set changes it later")
	f.StringVar(&o.readLeaseOrder, "read-lease-order", "", "`order` in which a new cluster shows writes: strict (the default), as etcd has it, or key, where a write waits for those only that hold its keys, and revisions of different keys may be seen out of order")
	f.DurationVar(&o.readLeaseTTL, "read-lease-ttl", 200*time.Millisecond, "how long this member's promises to readers last, and so how long writes may wait for a reader that died: 20ms to 10s")
	f.StringVar(&o.readLeaseChanges, "read-lease-changes", "policy", "`changes` that clients may make by tenure read-lease set at this member: the policy, also the order, or none")
	o.client.registerClients(f)
	o.peer.registerPeers(f)
	o.tls.register(f)
	o.http.register(f)
	o.sockets.register(f)
	o.discovery.register(f)
	o.auth.register(f)
	o.checks.register(f)
	o.tracing.register(f)
	o.log.Register(f, slog.LevelInfo)
	o.outputs.Register(f)
	registerForeign(f)
}

// config checks the options against each other and opens the listeners.
func (o *serveOptions) config(logger *slog.Logger, fail func(error)) (cfg server.Config, err error) {
	if err := o.peersAlike(); err != nil {
		return cfg, err
	}
	own, err := peerURL("--initial-advertise-peer-urls", o.advertisePeerURLs[0])
	if err != nil {
		return cfg, err
	}
	o.advertisePeerURLs[0] = own
	if o.discovery.domain != "" && o.initialCluster != "" {
		return cfg, errors.New("--discovery-srv and --initial-cluster exclude each other, as in etcd")
	}
	if o.initialCluster == "" {
		o.initialCluster = o.name + "=" + o.advertisePeerURLs[0]
	}
	if len(o.advertiseClientURLs) == 0 {
		o.advertiseClientURLs = o.listenClientURLs
		if err := dialable("--advertise-client-urls", o.advertiseClientURLs); err != nil {
			return cfg, err
		}
	} else if err := dialable("--advertise-client-urls", o.advertiseClientURLs); err != nil {
		// etcd's own way to start a container has it. Clients that stay with the URLs they were given do not mind.
		logger.Warn("clients that ask for the members' URLs cannot reach this member from elsewhere", "err", err)
	}
	where := cmp.Or(o.dataDir, o.name+".etcd")
	if o.dataDir == "" {
		o.dataDir = o.name + ".tenure"
	}
	if err := o.refuseEtcd(where); err != nil {
		return cfg, err
	}
	peers, err := parseCluster(o.initialCluster)
	if err != nil {
		return cfg, err
	}
	if err := dialable("--initial-advertise-peer-urls", o.advertisePeerURLs); err != nil && (len(peers) > 1 || o.discovery.domain != "") {
		return cfg, err
	} else if err != nil {
		logger.Warn("other members cannot be added before this one has another peer URL (tenure member update)", "err", err)
	}
	started := o.hasStarted()
	if o.discovery.domain != "" && !started {
		if peers, err = o.discovery.find(context.Background(), o.name, o.advertisePeerURLs[0]); err != nil {
			return cfg, err
		}
		logger.Info("members by DNS", "domain", o.discovery.domain, "urls", slices.Sorted(maps.Values(peers)))
	}
	if url, ok := peers[o.name]; ok && url != o.advertisePeerURLs[0] && started {
		peers[o.name] = o.advertisePeerURLs[0] // --initial-cluster is of the first start; it may have moved
	} else if ok && url != o.advertisePeerURLs[0] {
		if err := onePlace(context.Background(), o.hosts, url, o.advertisePeerURLs[0]); err != nil {
			return cfg, fmt.Errorf("--initial-cluster says that %s is at %s, --initial-advertise-peer-urls says %s: they must agree: %w", o.name, url, o.advertisePeerURLs[0], err)
		}
		o.advertisePeerURLs[0] = url // IDs follow from the letters of URLs, and the others go by this one
	}
	if err := sameScheme(o.listenPeerURLs[0], append(slices.Collect(maps.Values(peers)), o.advertisePeerURLs...)); err != nil {
		return cfg, err
	}
	switch o.clusterState {
	case "new":
	case "existing":
		if !started && len(peers) < 2 {
			return cfg, fmt.Errorf("--initial-cluster-state existing, and %s is empty: --initial-cluster must name other members, to be asked for the ID of this one, as `tenure member add` prints it", o.dataDir)
		}
	default:
		return cfg, fmt.Errorf("--initial-cluster-state %q: want new or existing", o.clusterState)
	}
	changes, err := etcdapi.ParseReadLeaseChanges(o.readLeaseChanges)
	if err != nil {
		return cfg, fmt.Errorf("--read-lease-changes %w", err)
	}
	policy, err := readLeasePolicy(o.readLease, o.readLeaseOrder)
	if err != nil {
		return cfg, fmt.Errorf("--read-lease and --read-lease-order: %w", err)
	}
	if o.readLeaseTTL < quorumlease.MinTTL || o.readLeaseTTL > quorumlease.MaxTTL {
		return cfg, fmt.Errorf("--read-lease-ttl %v: want from %v, as renewals cost messages, to %v, as writes may wait that long for a reader that died", o.readLeaseTTL, quorumlease.MinTTL, quorumlease.MaxTTL)
	}
	cfg = server.Config{
		Node: node.Config{
			Name: o.name, DataDir: o.dataDir, Peers: peers, ClusterToken: o.clusterToken, Existing: o.clusterState == "existing", ForceNewCluster: o.forceNewCluster, ClientURLs: o.advertiseClientURLs,
			HeartbeatInterval: time.Duration(o.heartbeatMillis) * time.Millisecond,
			ElectionTimeout:   time.Duration(o.electionMillis) * time.Millisecond,
			ReadLease:         string(policy), ReadLeaseTTL: o.readLeaseTTL, MaxLearners: o.maxLearners, WarnApply: o.warnApply, UnsafeNoSync: o.unsafeNoSync,
			Fail: fail, Logger: logger,
		},
		API: etcdapi.Config{
			MaxRequestBytes: o.maxRequestBytes, MaxTxnOps: o.maxTxnOps, MaxConcurrentStreams: o.maxStreams, QuotaBytes: o.quotaBytes, ReadLeaseChanges: changes, WarnCall: o.warnCall,
			WatchProgressInterval: o.watchProgressInterval, KeepAliveMinTime: o.keepAliveMin,
			KeepAliveInterval: o.keepAliveInterval, KeepAliveTimeout: o.keepAliveTimeout,
		},
	}
	cfg.Node.WAL.LogDir = o.logDir
	if err := o.checks.setIn(&cfg); err != nil {
		return cfg, err
	}
	if err := o.tracing.setIn(&cfg); err != nil {
		return cfg, err
	}
	if cfg.History, err = server.ParseRetention(o.compactionMode, o.compactionRetention); err != nil {
		return cfg, fmt.Errorf("--auto-compaction-mode and -retention: %w", err)
	}
	if o.unsafeNoSync {
		logger.Error("--unsafe-no-fsync: this member does not sync its disk; a crash of this machine may lose acknowledged writes and give a lease two holders")
	}
	if err := o.selfSign(logger); err != nil {
		return cfg, err
	}
	if err := o.alike(); err != nil {
		return cfg, err
	}
	if cfg.ClientTLS, err = o.client.load(o.tls, slices.Concat(o.listenClientURLs, o.sockets.httpURLs), logger); err != nil {
		return cfg, err
	}
	if cfg.Node.PeerTLS, err = o.peer.load(o.tls, o.listenPeerURLs, logger); err != nil {
		return cfg, err
	}
	var open []net.Listener
	defer func() {
		if err != nil {
			for _, l := range open {
				l.Close()
			}
		}
	}()
	for _, u := range slices.Concat(o.listenPeerURLs, o.listenClientURLs, o.sockets.httpURLs) {
		l, err := o.sockets.listen(u)
		if err != nil {
			return cfg, err
		}
		open = append(open, l)
	}
	first, last := len(o.listenPeerURLs), len(o.listenPeerURLs)+len(o.listenClientURLs)
	cfg.HTTPOnly = open[last:]
	cfg.Clients, cfg.Plain = o.apart(open[first:last], logger)
	o.auth.setIn(&cfg, o.client.clientAuth)
	if err = o.http.setIn(&cfg, o.sockets); err != nil {
		return cfg, err
	}
	cfg.Node.PeerListener = listenMany(open[:first])
	return cfg, nil
}

// hasStarted reports whether there is a log of an earlier start.
func (o *serveOptions) hasStarted() bool {
	return slices.ContainsFunc([]string{"wal", wal.ElsewhereFile}, func(name string) bool {
		_, err := os.Stat(filepath.Join(o.dataDir, name))
		return err == nil
	})
}

// selfSign makes the certificates that are to be made, which name the hosts at which this member is reached.
func (o *serveOptions) selfSign(logger *slog.Logger) error {
	clients := slices.Concat(o.listenClientURLs, o.sockets.httpURLs, o.advertiseClientURLs)
	if err := o.client.selfSign(o.dataDir, o.tls.years, clients, logger); err != nil {
		return err
	}
	return o.peer.selfSign(o.dataDir, o.tls.years, slices.Concat(o.listenPeerURLs, o.advertisePeerURLs), logger)
}

// parseCluster reads name=url,name=url.
func parseCluster(s string) (map[string]string, error) {
	peers := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		name, u, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" || u == "" {
			return nil, fmt.Errorf("--initial-cluster: %q: want name=http://host:port", part)
		}
		if peers[name] != "" {
			return nil, fmt.Errorf("--initial-cluster: %s is there twice; a member has one peer URL", name)
		}
		var err error
		if peers[name], err = peerURL("--initial-cluster", u); err != nil {
			return nil, err
		}
	}
	return peers, nil
}

// peerURL is a URL of a member without a slash at its end, as the IDs of the first members follow from their URLs,
// letter by letter. Members have no paths.
func peerURL(flag, raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw, nil // the user of the URL has a better error
	}
	raw = strings.TrimSuffix(raw, "/")
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s: %s: a member's URL has no path: want http://host:port", flag, raw)
	}
	return raw, nil
}

// dialable refuses URLs at which a member can listen and no other can dial.
func dialable(flag string, urls []string) error {
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue // the user of the URL has a better error
		}
		if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "" && u.Port() != "" || err == nil && ip.IsUnspecified() {
			return cli.Usagef("%s is an address to listen on, and none that others can dial: say in %s by which URL they reach this member", raw, flag)
		}
	}
	return nil
}

// sameScheme refuses members at https beside a port without TLS: that would be used to dial
// them, too, without a word about it.
func sameScheme(listen string, members []string) error {
	for _, u := range members {
		if strings.HasPrefix(u, "https://") && !strings.HasPrefix(listen, "https://") {
			return fmt.Errorf("a member is at %s, and --listen-peer-urls %s is without TLS: write https in both, or in none", u, listen)
		}
	}
	return nil
}
