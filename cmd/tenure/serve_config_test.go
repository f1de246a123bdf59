package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/host/register/filetest"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// parse returns the options of a command line, an environment and a file.
func parse(t *testing.T, args, environ []string) (serveOptions, error) {
	t.Helper()
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err := o.complete(f, environ)
	return o, err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServeSettingsHaveAnOrder(t *testing.T) {
	file := write(t, "tenure.yaml", `
name: file
data-dir: from-file
election-timeout: 3000
max-request-bytes: 33554432
listen-client-urls: http://a:1,http://b:2
client-transport-security:
  cert-file: c.pem
  client-cert-auth: true
peer-transport-security:
  key-file: p.pem
`)
	o, err := parse(t, []string{"--config-file", file, "--name", "flag"},
		[]string{"ETCD_NAME=etcd", "TENURE_NAME=tenure", "ETCD_DATA_DIR=from-etcd", "ETCD_HEARTBEAT_INTERVAL=50", "TENURE_HEARTBEAT_INTERVAL=70"})
	if err != nil {
		t.Fatal(err)
	}
	if o.name != "flag" || o.dataDir != "from-etcd" || o.electionMillis != 3000 || o.heartbeatMillis != 70 || o.maxRequestBytes != 32<<20 {
		t.Errorf("name %q (want the flag's), data-dir %q (want ETCD_'s), election %d (want the file's), heartbeat %d (want TENURE_'s), request bytes %d (want 32 MiB)",
			o.name, o.dataDir, o.electionMillis, o.heartbeatMillis, o.maxRequestBytes)
	}
	if len(o.listenClientURLs) != 2 || o.client.cert != "c.pem" || !o.client.clientAuth || o.peer.key != "p.pem" {
		t.Errorf("urls %v, client %+v, peer %+v; want the file's", o.listenClientURLs, o.client, o.peer)
	}
}

// A section or a setting without a value is none, as in a file whose lines were taken out.
func TestSettingsWithoutAValue(t *testing.T) {
	for text, want := range map[string]int{"client-transport-security:\nname:\n": 0, "peer-transport-security:\n  cert-file:\nname: a\n": 1, "": 0, "# nothing\n": 0} {
		if settings, err := readConfigFile(write(t, "tenure.yaml", text)); err != nil || len(settings) != want {
			t.Errorf("%q has the settings %q, %v; want %d", text, settings, err, want)
		}
	}
}

// Settings are taken in the order of their names, whatever section they are in, so that the first that makes no sense is the same each time.
func TestSettingsHaveTheOrderOfTheirNames(t *testing.T) {
	settings, err := readConfigFile(write(t, "tenure.yaml", "wal-dir: w\npeer-transport-security:\n  key-file: k\nclient-transport-security:\n  trusted-ca-file: t\nname: node\n"))
	if want := [][2]string{{"name", "node"}, {"peer-key-file", "k"}, {"trusted-ca-file", "t"}, {"wal-dir", "w"}}; err != nil || !slices.Equal(settings, want) {
		t.Errorf("the settings of a file are %q, %v; want %q", settings, err, want)
	}
}

// A value of the file is as its flag takes it: numbers as they are written, and lists with commas, whatever is in them.
func TestSettingsAsText(t *testing.T) {
	for want, value := range map[string]any{
		"33554432": float64(33554432), "0.5": 0.5, "true": true, "off": "off", "a,b": []any{"a", "b"}, "33554432,true": []any{float64(33554432), true}, "": []any{}, "a": []any{[]any{"a"}},
	} {
		if got := settingText(value); got != want {
			t.Errorf("%v is set as %q, want %q", value, got, want)
		}
	}
}

func TestServeReadLease(t *testing.T) {
	for _, tt := range []struct {
		name          string
		file          string
		args, environ []string
		policy        string
		ttl           time.Duration
	}{
		{"nothing said", "", nil, nil, "leader", 200 * time.Millisecond},
		{"flags", "", []string{"--read-lease", "all", "--read-lease-ttl", "1s"}, []string{"TENURE_READ_LEASE=off"}, "all", time.Second},
		{"environment", "read-lease: leader", nil, []string{"TENURE_READ_LEASE=all", "TENURE_READ_LEASE_TTL=20ms"}, "all", 20 * time.Millisecond},
		{"file", "read-lease: all\nread-lease-ttl: 10s", nil, nil, "all", 10 * time.Second},
		{"key order", "", []string{"--read-lease", "cost", "--read-lease-order", "key"}, nil, "cost/key", 200 * time.Millisecond},
		{"key order in the name", "read-lease: leader/key", nil, nil, "leader/key", 200 * time.Millisecond},
		{"a bare off in the file", "read-lease: off", nil, nil, "off", 200 * time.Millisecond},
		{"off in quotes", "read-lease: 'off'", nil, nil, "off", 200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{
				"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
				"--config-file", write(t, "tenure.yaml", tt.file),
			}, tt.args...)
			o, err := parse(t, args, tt.environ)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Node.PeerListener.Close()
			cfg.Clients[0].Close()
			if got := cfg.Node; got.ReadLease != tt.policy || got.ReadLeaseTTL != tt.ttl {
				t.Errorf("policy %q for %v, want %q for %v", got.ReadLease, got.ReadLeaseTTL, tt.policy, tt.ttl)
			}
		})
	}
}

func TestServeSettingsThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		name          string
		args, environ []string
		want          string
	}{
		{"a setting that does not exist", []string{"--config-file", write(t, "a.yaml", "data_dir: x")}, nil, `no setting "data_dir"`},
		{"no YAML", []string{"--config-file", write(t, "b.yaml", "{")}, nil, "b.yaml"},
		{"no file", []string{"--config-file", "/does/not/exist"}, nil, "--config-file"},
		{"a word for a number", nil, []string{"ETCD_ELECTION_TIMEOUT=soon"}, "ETCD_ELECTION_TIMEOUT"},
		{"names that disagree", []string{"--name", "a", "--initial-cluster", "b=http://127.0.0.1:1"}, nil, "--initial-cluster must agree"},
		{"URLs that disagree", []string{"--name", "a", "--initial-cluster", "a=http://127.0.0.1:1"}, nil, "they must agree"},
		{"no member", []string{"--initial-cluster", "http://127.0.0.1:1"}, nil, "want name=http://host:port"},
		{"a member twice", []string{"--initial-cluster", "a=http://x:1,a=http://y:1"}, nil, "twice"},
		{"a state", []string{"--initial-cluster-state", "old"}, nil, "want new or existing"},
		{"joining", []string{"--initial-cluster-state", "existing", "--data-dir", t.TempDir()}, nil, "must name other members"},
		{"a path of this member", []string{"--initial-advertise-peer-urls", "http://127.0.0.1:1/x"}, nil, "--initial-advertise-peer-urls: http://127.0.0.1:1/x: a member's URL has no path"},
		{"a path of another member", []string{"--initial-cluster", "default=http://localhost:2380,b=http://127.0.0.1:1/x/"}, nil, "--initial-cluster: http://127.0.0.1:1/x: a member's URL has no path"},
		{"a version of TLS without TLS", []string{"--tls-min-version", "TLS1.4"}, nil, "--tls-min-version: "},
		{"cipher suites without TLS", []string{"--cipher-suites", "FOO"}, nil, "--cipher-suites: "},
		{"versions of TLS that exclude each other, without TLS", []string{"--tls-min-version", "TLS1.3", "--tls-max-version", "TLS1.2"}, nil, "is newer than"},
		{"origins without a scheme", []string{"--cors", "a,b"}, nil, `--cors "a": want * or origins`},
		{"an origin with a path", []string{"--cors", "http://a:1,http://b:1/"}, nil, `--cors "http://b:1/": want`},
		{"TLS without certificates", []string{"--listen-client-urls", "https://127.0.0.1:0"}, nil, "--cert-file"},
		{"this member at https, and a port without", []string{"--initial-advertise-peer-urls", "https://127.0.0.1:1"}, nil, "is without TLS"},
		{"another at https, and a port without", []string{"--name", "a", "--initial-cluster", "a=http://localhost:2380,b=https://127.0.0.1:1"}, nil, "is without TLS"},
		{"half TLS", []string{"--listen-client-urls", "https://127.0.0.1:0", "--listen-client-http-urls", "http://127.0.0.1:0"}, nil, "either all"},
		{"no URL", []string{"--listen-client-urls", "localhost:2379"}, nil, "no URL"},
		{"an election too short", []string{"--election-timeout", "200"}, nil, "too short"},
		{"retention", []string{"--auto-compaction-retention", "-1"}, nil, "negative"},
		{"a policy of read leases", []string{"--read-lease", "some"}, nil, `--read-lease and --read-lease-order: quorumlease: no such policy of read leases: "some"; there are off, leader, all`},
		{"a policy that divides keys in strict order", []string{"--read-lease", "quorum"}, nil, "quorum divides the keys among members, which takes order key"},
		{"key order of nothing", []string{"--read-lease", "off", "--read-lease-order", "key"}, nil, "off has no order"},
		{"two orders", []string{"--read-lease", "all/key", "--read-lease-order", "strict"}, nil, "all/key is in key order"},
		{"an order", nil, []string{"TENURE_READ_LEASE_ORDER=loose"}, "want strict or key"},
		{"a policy from the environment", nil, []string{"TENURE_READ_LEASE=some"}, "there are off, leader, all"},
		{"no policy", []string{"--read-lease="}, nil, "there are off, leader, all"},
		{"changes", []string{"--read-lease-changes", "all"}, nil, "want policy, order or none"},
		{"a short read lease", []string{"--read-lease-ttl", "19ms"}, nil, "--read-lease-ttl 19ms: want from 20ms"},
		{"a long read lease", []string{"--read-lease-ttl", "11s"}, nil, "to 10s"},
		{"a read lease without a unit", nil, []string{"TENURE_READ_LEASE_TTL=200"}, "TENURE_READ_LEASE_TTL"},
		{"a level", []string{"--log-level", "loud"}, nil, "--log-level"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0"}, tt.args...)
			if !slices.Contains(args, "--listen-client-urls") {
				args = append(args, "--listen-client-urls", "http://127.0.0.1:0")
			}
			o, err := parse(t, args, tt.environ)
			if err == nil {
				var s *server.Server
				_, err = o.log.Logger(os.Stderr)
				if err == nil {
					var cfg server.Config
					if cfg, err = o.config(slog.New(slog.DiscardHandler), func(error) {}); err == nil {
						s, err = server.Start(cfg)
					}
				}
				if err == nil {
					s.Stop()
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// A serve that cannot listen everywhere listens nowhere.
func TestAServeThatFailsListensNowhere(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	both := "http://127.0.0.1:0,http://" + taken.Addr().String()
	for _, ports := range [][]string{{"--listen-client-urls", both}, {"--listen-client-urls", "http://127.0.0.1:0", "--listen-metrics-urls", both}} {
		o, err := parse(t, append(ports, "--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--advertise-client-urls", "http://127.0.0.1:1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		filetest.Descriptors(t, "a serve that cannot listen", func() {
			if _, err := o.config(slog.New(slog.DiscardHandler), func(error) {}); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
				t.Fatalf("%q: the last port is taken: %v", ports, err)
			}
		})
	}
}

// certificates makes an authority and a certificate for 127.0.0.1 in files.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	sign := func(c, parent *x509.Certificate, pub *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	file := func(name, kind string, der []byte) string {
		return write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	rootKey, leafKey := newKey(), newKey()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return file("ca.pem", "CERTIFICATE", sign(root, root, &rootKey.PublicKey, rootKey)),
		file("cert.pem", "CERTIFICATE", sign(leaf, root, &leafKey.PublicKey, rootKey)),
		file("key.pem", "EC PRIVATE KEY", der)
}

func TestServeWithCertificates(t *testing.T) {
	ca, cert, key := certificates(t)
	members := map[string]string{}
	var cluster []string
	for _, name := range []string{"a", "b", "c"} {
		members[name] = "https://" + freeAddresses(t, 1)[0]
		cluster = append(cluster, name+"="+members[name])
	}
	var endpoint string
	for name, peer := range members {
		client := freeAddresses(t, 1)[0]
		endpoint = "https://" + client
		o, err := parse(t, []string{
			"--name", name, "--data-dir", t.TempDir(), "--initial-cluster", strings.Join(cluster, ","),
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-client-urls", endpoint,
			"--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth",
			"--peer-cert-file", cert, "--peer-key-file", key, "--peer-trusted-ca-file", ca, "--peer-client-cert-auth",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
	}
	get := func(with tlsOptions) error {
		tlsConfig, err := with.load(tlsLimits{}, []string{endpoint}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: tlsConfig, DialTimeout: 5 * time.Second})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Put(t.Context(), "k", "v")
		return err
	}
	if err := get(tlsOptions{cert: cert, key: key, ca: ca}); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	pool := x509.NewCertPool()
	pemCA, err := os.ReadFile(ca)
	if err != nil || !pool.AppendCertsFromPEM(pemCA) {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(endpoint, "https://"), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // TLS 1.3 tells the client after its handshake
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client without a certificate: %v, want it to be refused", err)
	}
}
