package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// These are the flags of etcd that have no meaning here, so that its unit files, environments
// and configuration files carry over. Each is either without effect, which is told, or
// something that its operator counts on for safety: then a value other than those that ask for
// nothing is an error. Etcd's --experimental-NAME is --NAME here.

// withoutEffect are flags that take a value, for settings that are otherwise here or are not
// needed.
var withoutEffect = []string{
	"auth-token-ttl", "backend-batch-interval", "backend-batch-limit", "backend-bbolt-freelist-type", "bcrypt-cost",
	"bootstrap-defrag-threshold-megabytes", "client-cert-file", "client-key-file",
	"compaction-batch-limit", "compaction-sleep-interval", "discovery-dial-timeout",
	"discovery-fallback", "discovery-keepalive-time", "discovery-keepalive-timeout", "discovery-request-timeout",
	"discovery-srv-name", "distributed-tracing-address", "distributed-tracing-instance-id",
	"distributed-tracing-sampling-rate", "distributed-tracing-service-name", "downgrade-check-time",
	"listen-client-http-urls", "log-outputs", "log-package-levels",
	"log-rotation-config-json", "logger", "max-snapshots", "max-wals", "proxy-dial-timeout",
	"proxy-failure-wait", "proxy-read-timeout", "proxy-refresh-interval", "proxy-write-timeout", "raft-read-timeout",
	"raft-write-timeout", "self-signed-cert-validity", "snapshot-catchup-entries", "snapshot-count", "v2-deprecation",
	"warning-apply-duration", "warning-unary-request-duration",
}

// switchesWithoutEffect are such flags that are true or false. Settings that would make a
// member less safe (no fsync, no pre-vote) stay safe here.
var switchesWithoutEffect = []string{
	"debug", "discovery-insecure-skip-tls-verify", "discovery-insecure-transport",
	"enable-distributed-tracing", "enable-lease-checkpoint", "enable-lease-checkpoint-persist",
	"enable-log-rotation", "enable-v2", "initial-election-tick-advance",
	"memory-mlock", "pre-vote", "skip-client-san-verification", "socket-reuse-address", "socket-reuse-port",
	"stop-grpc-service-on-defrag", "txn-mode-write-with-shared-buffer", "unsafe-no-fsync",
}

// etcdOnly is a flag whose operator would be wrong about the member if the flag were ignored.
type etcdOnly struct {
	toggle  bool
	nothing []string // values that ask for nothing, beside the empty one
	instead string
}

var refused = map[string]etcdOnly{
	"auto-tls":          {true, []string{"false"}, "give --cert-file and --key-file: nobody can tell a certificate that a member makes for itself from a stranger's"},
	"peer-auto-tls":     {true, []string{"false"}, "give --peer-cert-file, --peer-key-file and --peer-trusted-ca-file: nobody can tell a certificate that a member makes for itself from a stranger's"},
	"auth-token":        {false, []string{"simple"}, "there are no users and roles; certificates of clients (--trusted-ca-file) decide which may connect"},
	"force-new-cluster": {true, []string{"false"}, "members that are lost for good are removed with `tenure member remove` while a majority is left"},
	"wal-dir":           {false, nil, "the log is in --data-dir: put that on the disk that is meant"},
	"proxy":             {false, []string{"off", "false"}, "a member is no proxy"},
	"enable-v2v3":       {false, nil, "there is no v2 API"},
	"discovery":         {false, nil, notDiscovered},
	"discovery-proxy":   {false, nil, notDiscovered},
	"discovery-srv":     {false, nil, notDiscovered},
	"discovery-token":   {false, nil, notDiscovered}, "discovery-endpoints": {false, nil, notDiscovered},
	"discovery-user": {false, nil, notDiscovered}, "discovery-password": {false, nil, notDiscovered},
	"discovery-cert": {false, nil, notDiscovered}, "discovery-key": {false, nil, notDiscovered}, "discovery-cacert": {false, nil, notDiscovered},
}

const notDiscovered = "name the members with --initial-cluster: a member that ignored it would begin a cluster of its own"

// foreign is the value of a flag that etcd has and tenure has not.
type foreign struct {
	refusal *etcdOnly
	toggle  bool
	value   string
}

func (v *foreign) String() string { return v.value }

func (v *foreign) Type() string {
	if v.toggle {
		return "bool"
	}
	return "string"
}

func (v *foreign) Set(value string) error {
	if v.toggle {
		switch value {
		case "1", "t", "T", "TRUE", "true", "True":
			value = "true"
		case "0", "f", "F", "FALSE", "false", "False":
			value = "false"
		default:
			return fmt.Errorf("%q: want true or false", value)
		}
	}
	if r := v.refusal; r != nil && value != "" && !slices.Contains(r.nothing, value) {
		return fmt.Errorf("%q is not possible here, and would not be safe to ignore: %s", value, r.instead)
	}
	v.value = value
	return nil
}

// registerForeign registers the flags that only etcd has.
func registerForeign(f *pflag.FlagSet) {
	add := func(name string, v *foreign, usage string) {
		flag := f.VarPF(v, name, "", usage)
		flag.Hidden = true
		if v.toggle {
			flag.NoOptDefVal = "true"
		}
	}
	const harmless = "has no effect here; accepted so that etcd's unit files carry over"
	for _, name := range withoutEffect {
		add(name, &foreign{}, harmless)
	}
	for _, name := range switchesWithoutEffect {
		add(name, &foreign{toggle: true}, harmless)
	}
	for name, r := range refused {
		add(name, &foreign{refusal: &r, toggle: r.toggle}, "is not possible here: "+r.instead)
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.TrimPrefix(name, "experimental-"))
	})
}

// ignoredFlags are the flags without effect that are set, in order.
func ignoredFlags(f *pflag.FlagSet) (names []string) {
	f.Visit(func(flag *pflag.Flag) {
		if v, ok := flag.Value.(*foreign); ok && v.refusal == nil {
			names = append(names, flag.Name)
		}
	})
	slices.Sort(names)
	return names
}

// protects are the words by which an unknown variable is taken for one that is meant to
// protect.
var protects = []string{"ALLOWED", "AUTH", "CA", "CERT", "CIPHER", "CIPHERS", "CRL", "QUOTA", "SAN", "TLS", "TRUSTED"}

// notForServe are variables of other commands.
var notForServe = []string{"TENURE_AT", "TENURE_LEADER", "TENURE_LEASE", "TENURE_TOKEN"}

// judgeUnknown returns the variables with our prefixes that no flag has. It refuses those that
// must be meant to protect something: one that is misspelt would leave it open.
func judgeUnknown(f *pflag.FlagSet, env map[string]string) (unknown []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(env)) {
		name, found := strings.CutPrefix(key, "TENURE_")
		if !found {
			name, found = strings.CutPrefix(key, "ETCD_")
		}
		if !found || env[key] == "" || slices.Contains(notForServe, key) || strings.HasPrefix(key, "TENURE_TEST_") ||
			f.Lookup(strings.ToLower(strings.ReplaceAll(name, "_", "-"))) != nil {
			continue
		}
		if slices.ContainsFunc(strings.Split(name, "_"), func(word string) bool { return slices.Contains(protects, word) }) {
			return nil, fmt.Errorf("%s: there is no such setting, and by its name it protects something: correct it (`tenure serve --help` lists them), or unset it", key)
		}
		unknown = append(unknown, key)
	}
	return unknown, nil
}

// oneDash has flags with one dash, as etcd takes them, written with two.
func oneDash(f *pflag.FlagSet, args []string) []string {
	out := slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, found := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if found && len(name) > 1 && f.Lookup(name) != nil {
			out[i] = "-" + arg
		}
	}
	return out
}
