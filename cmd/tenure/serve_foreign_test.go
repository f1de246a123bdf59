package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// serveFlags are the flags of serve, set by a command line, an environment and a file.
func serveFlags(t *testing.T, args, environ []string) (*pflag.FlagSet, serveOptions, []string, error) {
	t.Helper()
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	err := f.Parse(oneDash(f, args))
	var unknown []string
	if err == nil {
		unknown, err = o.complete(f, environ)
	}
	return f, o, unknown, err
}

// Each flag that etcd has is known here: it means the same, or it has no effect, or it is
// refused. One that a new version of etcd brings has to be judged.
func TestServeKnowsEtcdsFlags(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	seen := 0
	for _, file := range []string{"embed/config.go", "etcdmain/config.go"} {
		src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		if err != nil {
			t.Fatal(err)
		}
		_, flags, found := strings.Cut(string(src), map[string]string{"embed/config.go": "AddFlags(fs *flag.FlagSet) {", "etcdmain/config.go": "cfg.ec.AddFlags(fs)"}[file])
		if !found {
			t.Fatalf("%s has no flags any more", file)
		}
		flags, _, _ = strings.Cut(flags, "\n}\n")
		for _, m := range regexp.MustCompile(`fs\.\w*Var\([^"]*?(?:flags\.New\w+\([^)]*\),)?\s*"([a-z0-9-]+)"`).FindAllStringSubmatch(flags, -1) {
			if name := m[1]; name != "version" {
				seen++
				if f.Lookup(name) == nil {
					t.Errorf("etcd has --%s: say in serve_foreign_table.go whether it protects anything", name)
				}
			}
		}
	}
	if seen < 105 {
		t.Errorf("only %d flags of etcd were found", seen)
	}
	for _, name := range []string{"discovery", "discovery-proxy", "proxy", "enable-v2", "experimental-initial-corrupt-check", "experimental-peer-skip-client-san-verification", "experimental-watch-progress-notify-interval"} {
		if f.Lookup(name) == nil {
			t.Errorf("earlier versions of etcd had --%s, which is not known here", name)
		}
	}
}

func TestServeSettingsOfEtcd(t *testing.T) {
	for _, tt := range []struct {
		name          string
		args, environ []string
		file          string
		ignored       []string // told
		unknown       []string // told
		want          string   // the error's text, "" if there is none
	}{
		{name: "values after a space", args: []string{"--snapshot-count", "10000", "--logger", "zap", "--name", "x"}, ignored: []string{"logger", "snapshot-count"}},
		{name: "values after =", args: []string{"--snapshot-count=10000", "--pre-vote=true"}, ignored: []string{"pre-vote", "snapshot-count"}},
		{name: "switches take no value after a space", args: []string{"--pre-vote", "--name", "x"}, ignored: []string{"pre-vote"}},
		{name: "one dash", args: []string{"-name", "x", "-logger=zap", "-client-cert-auth", "--", "-name"}, ignored: []string{"logger"}},
		{name: "a switch that is none", args: []string{"--pre-vote=maybe"}, want: "want true or false"},
		{name: "a word for a count", args: []string{"--snapshot-count=abc"}, want: `"abc": want a whole number from 0 on`},
		{name: "a count below nothing", args: []string{"--max-wals=-1"}, want: `"-1": want a whole number from 0 on`},
		{name: "no count", args: []string{"--snapshot-catchup-entries="}, want: `"": want a whole number from 0 on`},
		{name: "a word for a number", environ: []string{"ETCD_BACKEND_BATCH_LIMIT=many"}, want: `ETCD_BACKEND_BATCH_LIMIT: invalid argument`},
		{name: "numbers as etcd has them", args: []string{"--snapshot-count=0x10", "--backend-batch-limit=-1"}, ignored: []string{"backend-batch-limit", "snapshot-count"}},
		{name: "a duration without a unit", args: []string{"--raft-read-timeout=5"}, want: `"5": want a duration such as 100ms`},
		{name: "another logger", args: []string{"--logger=foo"}, want: `"foo": want zap`},
		{name: "a stage", args: []string{"--v2-deprecation=foo"}, want: `"foo": want write-only or write-only-skip-check or write-only-drop-data or gone`},
		{name: "a known stage", args: []string{"--v2-deprecation=gone"}, ignored: []string{"v2-deprecation"}},
		{name: "a fallback, from the file", file: "discovery-fallback: stay", want: `"stay": want exit or proxy`},
		{name: "what etcd takes unread", args: []string{"--backend-bbolt-freelist-type=x", "--proxy-read-timeout=x"}, ignored: []string{"backend-bbolt-freelist-type", "proxy-read-timeout"}},
		{name: "earlier names", args: []string{"--experimental-initial-corrupt-check=true"}, environ: []string{"ETCD_EXPERIMENTAL_MEMORY_MLOCK=1"}, ignored: []string{"memory-mlock"}},
		{name: "the environment", environ: []string{"ETCD_LOGGER=zap", "ETCD_SNAPSHOT_COUNT="}, ignored: []string{"logger"}},
		{name: "variables that nobody knows", environ: []string{"ETCD_SERVICE_HOST=10.0.0.1", "ETCD_PORT_2379_TCP=x", "TENURE_NMAE=a", "ETCDCTL_CERT=x", "TENURE_AT=etcd://x", "ETCD_EMPTY="},
			unknown: []string{"ETCD_PORT_2379_TCP", "ETCD_SERVICE_HOST", "TENURE_NMAE"}},
		{name: "a misspelt protection", environ: []string{"ETCD_CLIENT_CERT_AUHT=true"}, want: "ETCD_CLIENT_CERT_AUHT: there is no such setting"},
		{name: "a misspelt protection of ours", environ: []string{"TENURE_TRUSTED_CA_FILES=ca.pem"}, want: "TENURE_TRUSTED_CA_FILES: there is no such setting"},
		{name: "a variable that is no switch", environ: []string{"ETCD_AUTO_TLS=perhaps"}, want: "ETCD_AUTO_TLS: "},
		{name: "tokens of nobody", environ: []string{"ETCD_AUTH_TOKEN=simple"}},
		{name: "a proxy", args: []string{"--proxy=on"}, want: "not be safe to ignore"},
		{name: "discovery", args: []string{"--discovery-token", "x"}, want: "begin a cluster of its own"},
		{name: "etcd's sample file", file: `
name: 'x'
data-dir:
wal-dir:
snapshot-count: 10000
cors:
discovery:
discovery-fallback: 'proxy'
proxy: 'off'
strict-reconfig-check: false
enable-pprof: true
client-transport-security:
  cert-file:
  client-cert-auth: false
  trusted-ca-file:
  auto-tls: false
peer-transport-security:
  allowed-cn:
  skip-client-san-verification: false
self-signed-cert-validity: 1
log-outputs: [stderr]
force-new-cluster: false
auto-compaction-retention: "1"
socket-options:
  reuse-port: false
discovery-config:
  dial-timeout: 2000000000
watch-progress-notify-interval: 600000000000
cipher-suites: [
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
]
tls-min-version: 'TLS1.2'
`, ignored: []string{"discovery-dial-timeout", "discovery-fallback", "snapshot-count"}},
		{name: "a setting twice", file: "client-transport-security:\n  client-cert-auth: true\n  client-cert-auth: false\n", want: "already set"},
		{name: "an unknown one in a section", file: "peer-transport-security:\n  client-cert-auht: true\n", want: `no setting "peer-client-cert-auht"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if tt.file != "" {
				args = append(args, "--config-file", write(t, "etcd.yaml", tt.file))
			}
			f, o, unknown, err := serveFlags(t, args, tt.environ)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want it to say %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := ignoredFlags(f); !slices.Equal(got, tt.ignored) {
				t.Errorf("told that %v have no effect, want %v", got, tt.ignored)
			}
			if !slices.Equal(unknown, tt.unknown) {
				t.Errorf("told that %v are unknown, want %v", unknown, tt.unknown)
			}
			if slices.Contains(args, "x") && o.name != "x" {
				t.Errorf("the name is %q, want x", o.name)
			}
			if o.dataDir != "" || o.client.ca != "" || len(o.peer.allowedCNs) > 0 {
				t.Errorf("what has no value in the file was set: data-dir %q, CA %q, names %q", o.dataDir, o.client.ca, o.peer.allowedCNs)
			}
		})
	}
}

// An unknown variable is refused if a word of its name is about protection, and reported otherwise.
func TestServeRefusesUnknownProtections(t *testing.T) {
	for _, word := range []string{"ALLOWED", "AUTH", "CA", "CERT", "CIPHER", "CIPHERS", "CRL", "QUOTA", "SAN", "TLS", "TRUSTED"} {
		for _, prefix := range []string{"ETCD_", "TENURE_"} {
			if _, _, _, err := serveFlags(t, nil, []string{prefix + "ODD_" + word + "=x"}); err == nil || !strings.Contains(err.Error(), "by its name it protects something") {
				t.Errorf("%sODD_%s: %v, want it refused", prefix, word, err)
			}
		}
		if _, _, unknown, err := serveFlags(t, nil, []string{"ETCD_ODD_" + word + "X=x"}); err != nil || len(unknown) != 1 {
			t.Errorf("ETCD_ODD_%sX: told %q, %v; want it told", word, unknown, err)
		}
	}
	if _, _, unknown, err := serveFlags(t, nil, []string{"TENURE_AT=a", "TENURE_LEADER=a", "TENURE_LEASE=a", "TENURE_TOKEN=a", "TENURE_TEST_X=a", "OTHER_TLS=a"}); err != nil || unknown != nil {
		t.Errorf("variables of other commands and programs: told %q, %v; want nothing", unknown, err)
	}
}

// Switches of etcd's take all words for true and false that etcd takes, and refused ones may ask for nothing.
func TestServeSwitchesOfEtcd(t *testing.T) {
	for _, word := range []string{"0", "f", "F", "FALSE", "false", "False", "1", "t", "T", "TRUE", "true", "True"} {
		for _, flag := range []string{"--force-new-cluster=", "--pre-vote="} {
			if _, _, _, err := serveFlags(t, []string{flag + word}, nil); err != nil {
				t.Errorf("%s%s is not taken: %v", flag, word, err)
			}
		}
	}
	for _, flag := range []string{"--proxy=off", "--proxy=false", "--discovery=", "--wal-dir="} {
		if _, _, _, err := serveFlags(t, []string{flag}, nil); err != nil {
			t.Errorf("%s asks for nothing: %v", flag, err)
		}
	}
}

// The sections of etcd's file and its variables reach the flags that protect.
func TestServeProtectionsFromFileAndEnvironment(t *testing.T) {
	file := write(t, "etcd.yaml", `
client-transport-security:
  cert-file: c.pem
  key-file: c.key
  client-cert-auth: true
  trusted-ca-file: ca.pem
  allowed-cn: [alice, bob]
  crl-file: c.crl
peer-transport-security:
  cert-file: p.pem
  key-file: p.key
  client-cert-file: d.pem
  client-key-file: d.key
  trusted-ca-file: pca.pem
  allowed-hostname: [db1, db2]
  skip-client-san-verification: true
tls-max-version: TLS1.2
cipher-suites: [A, B]
`)
	_, fromFile, _, err := serveFlags(t, []string{"--config-file", file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, fromEnv, _, err := serveFlags(t, nil, []string{
		"ETCD_CERT_FILE=c.pem", "ETCD_KEY_FILE=c.key", "ETCD_CLIENT_CERT_AUTH=true", "ETCD_TRUSTED_CA_FILE=ca.pem", "TENURE_CLIENT_CERT_ALLOWED_CN=alice,bob",
		"ETCD_CLIENT_CRL_FILE=c.crl", "ETCD_PEER_CERT_FILE=p.pem", "ETCD_PEER_KEY_FILE=p.key", "ETCD_PEER_CLIENT_CERT_FILE=d.pem", "ETCD_PEER_CLIENT_KEY_FILE=d.key",
		"ETCD_PEER_TRUSTED_CA_FILE=pca.pem", "ETCD_PEER_CERT_ALLOWED_HOSTNAME=db1,db2", "ETCD_EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION=true",
		"ETCD_TLS_MAX_VERSION=TLS1.2", "ETCD_CIPHER_SUITES=A,B",
	})
	if err != nil {
		t.Fatal(err)
	}
	for from, o := range map[string]serveOptions{"the file": fromFile, "the environment": fromEnv} {
		c, p := o.client, o.peer
		if c.cert != "c.pem" || c.key != "c.key" || !c.clientAuth || c.ca != "ca.pem" || !slices.Equal(c.allowedCNs, []string{"alice", "bob"}) || c.crl != "c.crl" {
			t.Errorf("from %s, for clients: %+v", from, c)
		}
		if p.cert != "p.pem" || p.key != "p.key" || p.dialCert != "d.pem" || p.dialKey != "d.key" || p.ca != "pca.pem" || !slices.Equal(p.allowedHostnames, []string{"db1", "db2"}) || !p.sanUnchecked {
			t.Errorf("from %s, for members: %+v", from, p)
		}
		if o.tls.maxVersion != "TLS1.2" || o.tls.minVersion != "TLS1.2" || !slices.Equal(o.tls.cipherSuites, []string{"A", "B"}) {
			t.Errorf("from %s, for both: %+v", from, o.tls)
		}
	}
}

// Each flag without effect whose value etcd reads has a kind, and none other has.
func TestKindsAreOfFlagsWithoutEffect(t *testing.T) {
	for name := range foreignKinds {
		if _, known := withoutEffect[name]; !known {
			t.Errorf("--%s has a kind, and is no flag without effect", name)
		}
	}
}
