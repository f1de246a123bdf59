package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// servedFlags has a value for each flag of serve, other than its default.
var servedFlags = map[string]string{
	"config-file": "FILE", "name": "b", "data-dir": "DIR/other", "wal-dir": "/fast", "listen-peer-urls": "http://localhost:0",
	"listen-client-urls": "http://127.0.0.1:0,http://localhost:0", "initial-advertise-peer-urls": "http://h:7", "advertise-client-urls": "http://x:1,http://y:2",
	"initial-cluster": "default=http://localhost:2380,z=http://z:1", "initial-cluster-state": "existing", "initial-cluster-token": "tok", "max-learners": "3",
	"heartbeat-interval": "70", "election-timeout": "900", "max-txn-ops": "5", "max-request-bytes": "6", "max-concurrent-streams": "7", "quota-backend-bytes": "8",
	"grpc-keepalive-min-time": "9s", "grpc-keepalive-interval": "10s", "grpc-keepalive-timeout": "11s", "watch-progress-notify-interval": "12s",
	"warning-unary-request-duration": "13s", "warning-apply-duration": "14s", "unsafe-no-fsync": "true", "force-new-cluster": "true", "auto-compaction-mode": "revision",
	"auto-compaction-retention": "15m", "read-lease": "all", "read-lease-order": "key", "read-lease-ttl": "300ms", "read-lease-changes": "none",
	"cert-file": "c1", "key-file": "c2", "trusted-ca-file": "c3", "auto-tls": "true", "client-cert-auth": "true", "client-crl-file": "c4", "client-cert-allowed-cn": "c5", "client-cert-allowed-hostname": "c6",
	"peer-cert-file": "p1", "peer-key-file": "p2", "peer-trusted-ca-file": "p3", "peer-auto-tls": "true", "peer-client-cert-auth": "true", "peer-crl-file": "p4", "peer-cert-allowed-cn": "p5",
	"peer-cert-allowed-hostname": "p6", "peer-client-cert-file": "p7", "peer-client-key-file": "p8", "peer-skip-client-san-verification": "true",
	"tls-min-version": "TLS1.3", "tls-max-version": "TLS1.2", "cipher-suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "self-signed-cert-validity": "9",
	"listen-metrics-urls": "http://127.0.0.1:0,http://localhost:0", "metrics": "extensive", "enable-grpc-gateway": "false", "host-whitelist": "h1,h2", "cors": "https://o1,http://o2:2", "enable-pprof": "true",
	"listen-client-http-urls": "http://127.0.0.1:0,http://localhost:0", "socket-reuse-port": "true", "socket-reuse-address": "true", "discovery-srv": "d1", "discovery-srv-name": "d2",
	"auth-token": "jwt,x", "auth-token-ttl": "16", "bcrypt-cost": "17", "corrupt-check-time": "18s", "compact-hash-check-time": "19s", "compact-hash-check-enabled": "true",
	"enable-distributed-tracing": "true", "distributed-tracing-address": "t1:1", "distributed-tracing-service-name": "t2", "distributed-tracing-instance-id": "t3", "distributed-tracing-sampling-rate": "20",
	"initial-corrupt-check": "true", "feature-gates": "InitialCorruptCheck=true", "strict-reconfig-check": "false",
	"log-level": "error", "log-format": "json", "log-outputs": "stdout,l1", "enable-log-rotation": "true", "log-rotation-config-json": `{"maxsize": 1}`,
}

// leaves lists the values in v by their paths. Fields of other packages' structs that are not exported are left out.
func leaves(v reflect.Value, path string, all map[string]string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || v.Type().PkgPath() == reflect.TypeFor[serveOptions]().PkgPath() {
				leaves(v.Field(i), path+"."+f.Name, all)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			leaves(v.MapIndex(key), fmt.Sprintf("%s[%v]", path, key), all)
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), all)
		}
	case reflect.Interface:
		if !v.IsNil() {
			all[path] = v.Elem().Type().String()
		}
	case reflect.Pointer, reflect.Func, reflect.Chan:
		if !v.IsNil() {
			all[path] = "set"
		}
	default:
		all[path] = fmt.Sprint(v)
	}
}

// changed lists how the leaves of one differ from those of another.
func changed(from, to map[string]string) (lines []string) {
	for _, path := range slices.Sorted(maps.Keys(to)) {
		if was, known := from[path]; !known || was != to[path] {
			lines = append(lines, fmt.Sprintf("%s=%s", path, to[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(from)) {
		if _, known := to[path]; !known {
			lines = append(lines, path+" is gone")
		}
	}
	return lines
}

// wired returns the leaves of the configuration of a member with more flags, and those of its options. Records of DNS
// are not asked for.
func wired(t *testing.T, dir string, args ...string) (config, options map[string]string, err error) {
	t.Helper()
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	common := []string{"--data-dir", dir, "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0"}
	if err := f.Parse(append(common, args...)); err != nil {
		t.Fatal(err)
	}
	config, options = map[string]string{}, map[string]string{}
	leaves(reflect.ValueOf(o), "options", options)
	if o.discovery.domain != "" {
		return config, options, nil
	}
	if _, err := o.complete(f, nil); err != nil {
		return config, options, err
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		return config, options, err
	}
	for _, l := range slices.Concat([]net.Listener{cfg.Node.PeerListener}, cfg.Clients, cfg.HTTPOnly, cfg.Metrics) {
		l.Close()
	}
	leaves(reflect.ValueOf(cfg), "config", config)
	return config, options, nil
}

// Each flag of serve changes what it is for in the configuration of a member, and nothing else. The rest of a flag
// that needs others is in its options. testdata/serve_wiring.txt has all; -rewrite writes it.
func TestEachFlagOfServeHasItsPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := write(t, "tenure.yaml", "max-txn-ops: 21\n")
	base, plain, err := wired(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	var all strings.Builder
	for _, path := range slices.Sorted(maps.Keys(base)) {
		fmt.Fprintf(&all, "without flags: %s=%s\n", path, base[path])
	}
	for _, path := range slices.Sorted(maps.Keys(plain)) {
		fmt.Fprintf(&all, "without flags: %s=%s\n", path, plain[path])
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if _, other := flag.Value.(*foreign); other {
			return
		}
		value, known := servedFlags[flag.Name]
		if !known {
			t.Errorf("--%s has no value in servedFlags, so no test sees whether it reaches its place", flag.Name)
			return
		}
		value = strings.NewReplacer("DIR", dir, "FILE", file).Replace(value)
		config, options, err := wired(t, dir, "--"+flag.Name+"="+value)
		lines := changed(base, config)
		if err != nil || len(config) == 0 || len(lines) == 0 {
			lines = changed(plain, options)
		}
		if err != nil {
			lines = append(lines, "refused: "+err.Error())
		}
		fmt.Fprintf(&all, "--%s=%s: %s\n", flag.Name, value, strings.Join(lines, ", "))
	})
	golden.Lines(t, "testdata/serve_wiring.txt", strings.NewReplacer(dir, "DIR", file, "FILE").Replace(all.String()))
}
