package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// An authority signs certificates, and lists the revoked ones.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: ecKey(t), next: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, SubjectKeyId: []byte{1}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.file = pemFile(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemFile(t *testing.T, name, kind string, der []byte) string {
	return write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// A credential is a certificate in files.
type credential struct {
	cert, key string
	serial    int64
}

// issue makes a certificate for a name and for hosts, names and addresses.
func (a *authority) issue(name string, hosts ...string) credential {
	a.t.Helper()
	a.next++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	key := ecKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return credential{pemFile(a.t, "cert.pem", "CERTIFICATE", der), pemFile(a.t, "key.pem", "EC PRIVATE KEY", keyDER), a.next}
}

// revoke makes the list of revoked certificates.
func (a *authority) revoke(revoked ...credential) []byte {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(c.serial), RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// ports makes the configurations of the ports of `tenure serve` with some flags.
func ports(t *testing.T, args ...string) (clients, peers *tls.Config, err error) {
	t.Helper()
	o, err := parse(t, append([]string{
		"--data-dir", t.TempDir(), "--listen-client-urls", "https://127.0.0.1:0", "--listen-peer-urls", "https://127.0.0.1:0",
		"--initial-advertise-peer-urls", "https://127.0.0.1:1",
	}, args...), nil)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		return nil, nil, err
	}
	cfg.Node.PeerListener.Close()
	cfg.Clients[0].Close()
	return cfg.ClientTLS, cfg.Node.PeerTLS, nil
}

// shake connects to a port and returns what either side says against the other.
func shake(t *testing.T, port, with *tls.Config) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err == nil {
			defer raw.Close()
			err = tls.Server(raw, port).Handshake()
		}
		accepted <- err
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	with = with.Clone()
	if with.ServerName == "" {
		with.ServerName = "127.0.0.1"
	}
	err = tls.Client(raw, with).Handshake()
	if err != nil {
		raw.Close()
	}
	return errors.Join(<-accepted, err)
}

// caller is the configuration of a client, with a certificate if it has one.
func (a *authority) caller(c *credential) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.parsed())
	cfg := &tls.Config{RootCAs: pool}
	if c != nil {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			a.t.Fatal(err)
		}
		// Sent whatever authorities the other side asks for.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

func (a *authority) parsed() *x509.Certificate {
	raw, err := os.ReadFile(a.file)
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// TestServeTLS checks which clients may come to each port, by the flags that protect it.
func TestServeTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server := ca.issue("a", "127.0.0.1")
	ours, theirs, elsewhere, anywhere := ca.issue("good", "127.0.0.1"), other.issue("good", "127.0.0.1"), ca.issue("good", "192.0.2.1"), ca.issue("other")
	crl := write(t, "revoked.crl", string(ca.revoke(ours)))
	type call struct {
		who  string
		with *credential
		cfg  func(*tls.Config)
		want string // "" is welcome
	}
	const uncertified = "didn't provide a certificate"
	tls12 := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	for _, tt := range []struct {
		name  string
		flags []string // PREFIX is peer- at the members' port, CLIENTS is client- or peer-
		only  string   // a port
		calls []call
	}{
		{"certificates only", nil, "", []call{{"anybody", nil, nil, ""}, {"another's certificate", &theirs, nil, ""}}},
		{"an authority", []string{"--PREFIXtrusted-ca-file", ca.file}, "", []call{
			{"nobody knows", nil, nil, uncertified},
			{"its own", &ours, nil, ""},
			{"another's", &theirs, nil, "unknown authority"},
		}},
		{"an authority, said twice", []string{"--PREFIXtrusted-ca-file", ca.file, "--PREFIXclient-cert-auth"}, "", []call{
			{"nobody knows", nil, nil, uncertified},
			{"its own", &ours, nil, ""},
		}},
		{"addresses of members", []string{"--peer-trusted-ca-file", ca.file}, "peer-", []call{
			{"from the address", &ours, nil, ""},
			{"from another", &elsewhere, nil, "which it does not name"},
			{"from anywhere", &anywhere, nil, ""},
		}},
		{"addresses of members that do not count", []string{"--peer-trusted-ca-file", ca.file, "--peer-skip-client-san-verification"}, "peer-", []call{
			{"from another", &elsewhere, nil, ""},
			{"nobody knows", nil, nil, uncertified},
		}},
		{"addresses of clients", []string{"--trusted-ca-file", ca.file}, "client-", []call{{"from another", &elsewhere, nil, ""}}},
		{"revoked", []string{"--PREFIXtrusted-ca-file", ca.file, "--CLIENTScrl-file", crl}, "", []call{
			{"revoked", &ours, nil, "revoked"},
			{"not revoked", &anywhere, nil, ""},
			{"nobody knows", nil, nil, uncertified},
		}},
		{"common names", []string{"--PREFIXtrusted-ca-file", ca.file, "--CLIENTScert-allowed-cn", "none,good,a"}, "", []call{
			{"listed", &ours, nil, ""},
			{"not listed", &anywhere, nil, "authentication failed"},
			{"nobody knows", nil, nil, uncertified},
		}},
		{"hosts", []string{"--PREFIXtrusted-ca-file", ca.file, "--CLIENTScert-allowed-hostname", "127.0.0.1"}, "", []call{
			{"listed", &ours, nil, ""},
			{"not listed", &anywhere, nil, "authentication failed"},
		}},
		{"by default", nil, "", []call{
			{"1.1", nil, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, "version"},
			{"1.2", nil, tls12, ""},
		}},
		{"versions", []string{"--tls-min-version", "TLS1.3"}, "", []call{{"1.2", nil, tls12, "version"}, {"1.3", nil, nil, ""}}},
		{"older versions", []string{"--tls-max-version", "TLS1.2"}, "", []call{
			{"1.3", nil, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, "version"}, {"1.2", nil, nil, ""},
		}},
		{"ciphers", []string{"--cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "--tls-max-version", "TLS1.2"}, "", []call{
			{"another", nil, func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} }, "handshake"},
			{"that", nil, func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} }, ""},
		}},
	} {
		for _, port := range []string{"client-", "peer-"} {
			if tt.only != "" && tt.only != port {
				continue
			}
			t.Run(tt.name+"/"+strings.TrimSuffix(port, "-"), func(t *testing.T) {
				args := []string{"--cert-file", server.cert, "--key-file", server.key, "--peer-cert-file", server.cert, "--peer-key-file", server.key}
				for _, flag := range tt.flags {
					args = append(args, strings.NewReplacer("PREFIX", strings.TrimPrefix(port, "client-"), "CLIENTS", port).Replace(flag))
				}
				clients, peers, err := ports(t, args...)
				if err != nil {
					t.Fatal(err)
				}
				at := clients
				if port == "peer-" {
					at = peers
				}
				for _, c := range tt.calls {
					with := ca.caller(c.with)
					if c.cfg != nil {
						c.cfg(with)
					}
					err := shake(t, at, with)
					if c.want == "" && err != nil {
						t.Errorf("%s: %v, want it to be welcome", c.who, err)
					}
					if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
						t.Errorf("%s: got %v, want it to be refused: %s", c.who, err, c.want)
					}
				}
			})
		}
	}
}

// A revoked certificate is refused from the moment at which the list has it, and every
// certificate is refused when the list cannot be read.
func TestServeReadsRevokedAgain(t *testing.T) {
	ca := newAuthority(t)
	server, caller := ca.issue("a", "127.0.0.1"), ca.issue("b")
	crl := write(t, "revoked.crl", string(ca.revoke()))
	port, _, err := ports(t, "--cert-file", server.cert, "--key-file", server.key, "--trusted-ca-file", ca.file, "--client-crl-file", crl,
		"--peer-cert-file", server.cert, "--peer-key-file", server.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		list []byte
		want string
	}{{ca.revoke(server), ""}, {ca.revoke(server, caller), "revoked"}, {[]byte("garbage"), "malformed"}, {ca.revoke(), ""}} {
		if err := os.WriteFile(crl, tt.list, 0o600); err != nil {
			t.Fatal(err)
		}
		err := shake(t, port, ca.caller(&caller))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// Members check callers and the members that they dial alike, and show the certificate that is
// meant for that.
func TestServeDialsMembers(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server, dialing := ca.issue("a", "127.0.0.1"), ca.issue("dials")
	_, peers, err := ports(t, "--cert-file", server.cert, "--key-file", server.key, "--peer-cert-file", server.cert, "--peer-key-file", server.key,
		"--peer-trusted-ca-file", ca.file, "--peer-client-cert-file", dialing.cert, "--peer-client-key-file", dialing.key)
	if err != nil {
		t.Fatal(err)
	}
	member := func(a *authority) (*tls.Config, *string) {
		c := a.issue("b", "127.0.0.1")
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			t.Fatal(err)
		}
		shown := new(string)
		return &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
			VerifyConnection: func(s tls.ConnectionState) error {
				*shown = s.PeerCertificates[0].Subject.CommonName
				return nil
			},
		}, shown
	}
	ours, shown := member(ca)
	if err := shake(t, ours, peers); err != nil || *shown != "dials" {
		t.Errorf("to a member: %v, and it is shown the certificate of %q, want the one for dialing", err, *shown)
	}
	strangers, _ := member(other)
	if err := shake(t, strangers, peers); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("to one whose certificate another authority signed: %v, want it to be refused", err)
	}
}

// placed is a connection between other addresses.
type placed struct {
	net.Conn
	local, remote string
}

func (p placed) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.ParseIP(p.local), Port: 1} }
func (p placed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.remote), Port: 2} }

// A member's certificate names the address that it comes from, and not the one that it comes to.
func TestServeAddressesAreOfWhoCalls(t *testing.T) {
	ca := newAuthority(t)
	server, near, far := ca.issue("a", "127.0.0.1"), ca.issue("b", "127.0.0.1"), ca.issue("c", "192.0.2.1")
	_, port, err := ports(t, "--cert-file", server.cert, "--key-file", server.key, "--peer-cert-file", server.cert, "--peer-key-file", server.key,
		"--peer-trusted-ca-file", ca.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		with credential
		good bool
	}{{near, true}, {far, false}} {
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		go func() {
			caller := ca.caller(&c.with)
			caller.ServerName, caller.MaxVersion = "127.0.0.1", tls.VersionTLS12
			err := tls.Client(theirs, caller).Handshake()
			theirs.Close()
			done <- err
		}()
		err := tls.Server(placed{ours, "192.0.2.1", "127.0.0.1"}, port).Handshake()
		ours.Close()
		<-done
		if (err == nil) != c.good {
			t.Errorf("certificate %d at 192.0.2.1, from 127.0.0.1: %v, want it taken: %v", c.with.serial, err, c.good)
		}
	}
}

// A flag of TLS has no effect at a port without it, as in etcd. A warning for each URL says so, and how to have TLS there.
func TestServeWarnsOfFlagsOfTLSWithoutTLS(t *testing.T) {
	advice := map[string][]string{"": {"write https://127.0.0.1:0,", "write unixs:///"}, "peer-": {"write https://127.0.0.1:0,"}}
	for _, prefix := range []string{"", "peer-"} {
		clients := "client-"
		if prefix != "" {
			clients = prefix
		}
		flags := []string{prefix + "cert-file=x", prefix + "key-file=x", prefix + "trusted-ca-file=x", prefix + "client-cert-auth", clients + "crl-file=x",
			clients + "cert-allowed-cn=x", clients + "cert-allowed-hostname=x", prefix + "auto-tls"}
		if prefix != "" {
			flags = append(flags, "peer-client-cert-file=x", "peer-client-key-file=x")
		}
		for _, flag := range flags {
			dir, socket := t.TempDir(), t.TempDir()+"/s"
			o, err := parse(t, []string{"--data-dir", dir, "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0,unix://" + socket, "--advertise-client-urls", "http://h:1", "--" + flag}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			cfg, err := o.config(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), func(error) {})
			if err != nil {
				t.Errorf("--%s at a port without TLS: %v, want it taken, as etcd does", flag, err)
				continue
			}
			for _, l := range append(cfg.Clients, cfg.Node.PeerListener) {
				l.Close()
			}
			if cfg.ClientTLS != nil || cfg.Node.PeerTLS != nil || len(cfg.Plain) > 0 {
				t.Errorf("--%s makes TLS of ports without it", flag)
			}
			warned := strings.Count(log.String(), "--"+prefix+"cert-file and its like have no effect")
			if want := len(advice[prefix]); warned != want {
				t.Errorf("--%s at %d URLs without TLS is told %d times: %q", flag, want, warned, log.String())
			}
			for _, secure := range advice[prefix] {
				if !strings.Contains(log.String(), secure) {
					t.Errorf("--%s at a port without TLS is told as %q; want that it says to write %s", flag, log.String(), secure)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("--%s at a port without TLS leaves %v, %v in the data directory", flag, left, err)
			}
		}
	}
}

// names is a resolver that knows some.
type names map[string][]string

func (n names) LookupAddr(_ context.Context, addr string) ([]string, error) { return n[addr], nil }
func (n names) LookupHost(_ context.Context, host string) ([]string, error) { return n[host], nil }

func TestCheckAddress(t *testing.T) {
	dns := names{"10.0.0.1": {"a.db.example."}, "10.0.0.4": {"a.db.example.evil."}, "10.0.0.5": {"db.example."}, "b.example": {"10.0.0.2", "10.0.0.3"}, "*.example": {"10.0.0.9"}}
	for _, tt := range []struct {
		ips, names []string
		from       string
		good       bool
	}{
		{nil, nil, "10.0.0.1:5", true},
		{[]string{"10.0.0.1"}, nil, "10.0.0.1:5", true},
		{[]string{"10.0.0.1"}, nil, "10.0.0.2:5", false},
		{nil, []string{"a.db.example"}, "10.0.0.1:5", true},
		{nil, []string{"a.db.example"}, "10.0.0.2:5", false},
		{nil, []string{"db.example"}, "10.0.0.1:5", false}, // the whole name counts
		{nil, []string{"*.db.example"}, "10.0.0.1:5", true},
		{nil, []string{"*.other.example"}, "10.0.0.1:5", false},
		{nil, []string{"*.db.example"}, "10.0.0.4:5", false}, // a stranger's zone
		{nil, []string{"*.db.example"}, "10.0.0.5:5", false},
		{nil, []string{"*db.example"}, "10.0.0.1:5", false},
		{nil, []string{"*"}, "10.0.0.1:5", false},
		{[]string{"10.0.0.1"}, nil, "10.0.0.1", false}, // no address of a connection
		{nil, []string{"*.example"}, "10.0.0.9:5", false},
		{nil, []string{"b.example"}, "10.0.0.3:5", true},
		{[]string{"10.0.0.8"}, []string{"b.example"}, "10.0.0.2:5", true},
		{[]string{"10.0.0.8"}, []string{"b.example"}, "10.0.0.7:5", false},
	} {
		cert := &x509.Certificate{DNSNames: tt.names}
		for _, ip := range tt.ips {
			cert.IPAddresses = append(cert.IPAddresses, net.ParseIP(ip))
		}
		if err := checkAddress(t.Context(), dns, cert, tt.from); (err == nil) != tt.good {
			t.Errorf("a certificate for %v %v from %s: %v, want good %v", tt.ips, tt.names, tt.from, err, tt.good)
		}
	}
}

// Options that protect nothing without another one are refused.
func TestServeTLSThatProtectsNothing(t *testing.T) {
	ca := newAuthority(t)
	c := ca.issue("a", "127.0.0.1")
	pemList := pemFile(t, "crl.pem", "X509 CRL", ca.revoke())
	base := []string{"--cert-file", c.cert, "--key-file", c.key, "--peer-cert-file", c.cert, "--peer-key-file", c.key}
	without := func(flag string) []string {
		at := slices.Index(base, flag)
		return slices.Delete(slices.Clone(base), at, at+2)
	}
	with := func(more ...string) []string { return append(slices.Clone(base), more...) }
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no key", without("--key-file"), "needs --cert-file and --key-file"},
		{"no certificate", without("--cert-file"), "needs --cert-file and --key-file"},
		{"no key for members", without("--peer-key-file"), "needs --peer-cert-file and --peer-key-file"},
		{"no authority", with("--client-cert-auth"), "--client-cert-auth needs --trusted-ca-file"},
		{"no authority for members", with("--peer-client-cert-auth"), "--peer-client-cert-auth needs --peer-trusted-ca-file"},
		{"the other port's authority", with("--peer-client-cert-auth", "--trusted-ca-file", ca.file), "--peer-client-cert-auth needs --peer-trusted-ca-file"},
		{"revoked by whom", with("--client-crl-file", pemList), "--client-crl-file needs --trusted-ca-file"},
		{"revoked members by whom", with("--peer-crl-file", pemList), "--peer-crl-file needs --peer-trusted-ca-file"},
		{"a name on no certificate", with("--peer-cert-allowed-cn", "x"), "--peer-cert-allowed-cn needs --peer-trusted-ca-file"},
		{"a client's name on no certificate", with("--client-cert-allowed-cn", "x"), "--client-cert-allowed-cn needs --trusted-ca-file"},
		{"a host on no certificate", with("--client-cert-allowed-hostname", "x"), "--client-cert-allowed-hostname needs --trusted-ca-file"},
		{"a member's host on no certificate", with("--peer-cert-allowed-hostname", "x"), "--peer-cert-allowed-hostname needs --peer-trusted-ca-file"},
		{"names and hosts", with("--trusted-ca-file", ca.file, "--client-cert-allowed-cn", "x", "--client-cert-allowed-hostname", "y"), "exclude each other"},
		{"an empty name", with("--trusted-ca-file", ca.file, "--client-cert-allowed-cn", "x,"), "a name is empty"},
		{"an empty host", with("--trusted-ca-file", ca.file, "--client-cert-allowed-hostname", "x,"), "a name is empty"},
		{"a member's empty name", with("--peer-trusted-ca-file", ca.file, "--peer-cert-allowed-cn", "x,"), "a name is empty"},
		{"a member's empty host", with("--peer-trusted-ca-file", ca.file, "--peer-cert-allowed-hostname", "x,"), "a name is empty"},
		{"names of members and hosts", with("--peer-trusted-ca-file", ca.file, "--peer-cert-allowed-cn", "x", "--peer-cert-allowed-hostname", "y"), "exclude each other"},
		{"a key to dial with, and no certificate", with("--peer-client-key-file", c.key), "give both or none"},
		{"half a certificate to dial with", with("--peer-client-cert-file", c.cert), "give both or none"},
		{"a list that is not DER", with("--trusted-ca-file", ca.file, "--client-crl-file", pemList), "want DER"},
		{"no list", with("--trusted-ca-file", ca.file, "--client-crl-file", "/does/not/exist"), "/does/not/exist"},
		{"no authority in the file", with("--trusted-ca-file", c.key), "--cert-file and its like"},
		{"a version", with("--tls-min-version", "TLS1.1"), "--tls-min-version"},
		{"versions the wrong way", with("--tls-min-version", "TLS1.3", "--tls-max-version", "TLS1.2"), "newer than"},
		{"a cipher", with("--cipher-suites", "ROT13"), "--cipher-suites"},
		{"ciphers of TLS 1.3 alone", with("--cipher-suites", "TLS_AES_256_GCM_SHA384"), "none is of TLS 1.2"},
		{"ciphers of no version", with("--cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "--tls-min-version", "TLS1.3"), "--cipher-suites are for TLS 1.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := ports(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
		})
	}
	for _, args := range [][]string{with("--trusted-ca-file", ca.file), with("--tls-min-version", "TLS1.3", "--tls-max-version", "TLS1.3")} {
		if _, _, err := ports(t, args...); err != nil {
			t.Errorf("%q: nothing is missing: %v", args, err)
		}
	}
}

// A server that got an authority and nothing else lets no client in without a certificate, at
// either port.
func TestServeAsksForCertificates(t *testing.T) {
	ca := newAuthority(t)
	c := ca.issue("a", "127.0.0.1")
	addresses := freeAddresses(t, 2)
	o, err := parse(t, []string{
		"--data-dir", t.TempDir(), "--listen-client-urls", "https://" + addresses[0], "--listen-peer-urls", "https://" + addresses[1],
		"--initial-advertise-peer-urls", "https://" + addresses[1], "--cert-file", c.cert, "--key-file", c.key, "--trusted-ca-file", ca.file,
		"--peer-cert-file", c.cert, "--peer-key-file", c.key, "--peer-trusted-ca-file", ca.file,
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
	for i, addr := range addresses {
		for _, with := range []*credential{nil, &c} {
			cfg := ca.caller(with)
			cfg.MaxVersion = tls.VersionTLS12 // which tells a client in its handshake
			cfg.NextProtos = []string{"h2"}
			conn, err := tls.Dial("tcp", addr, cfg)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (with != nil) {
				t.Errorf("port %d, certificate %v: %v, want those with a certificate only", i, with != nil, err)
			}
		}
	}
}

// A check of addresses comes on top of the checks that a port made before, such as that of revoked certificates.
func TestServeJudgesAddressesBesideAllElse(t *testing.T) {
	revoked := errors.New("revoked")
	for name, tt := range map[string]struct {
		before error
		hosts  []net.IP // of the certificate; nil: there is none
		good   bool
		is     error
	}{
		"from where it names":              {nil, []net.IP{{127, 0, 0, 1}}, true, nil},
		"from elsewhere":                   {nil, []net.IP{{192, 0, 2, 1}}, false, nil},
		"revoked, from where it names":     {revoked, []net.IP{{127, 0, 0, 1}}, false, revoked},
		"no certificate":                   {nil, nil, true, nil},
		"no certificate, which is refused": {revoked, nil, false, revoked},
	} {
		cfg := &tls.Config{MinVersion: tls.VersionTLS13, VerifyConnection: func(tls.ConnectionState) error { return tt.before }}
		checkAddresses(cfg)
		c, err := cfg.GetConfigForClient(&tls.ClientHelloInfo{Conn: placed{nil, "192.0.2.1", "127.0.0.1"}})
		if err != nil || c == nil || c.MinVersion != tls.VersionTLS13 || c.GetConfigForClient != nil {
			t.Fatalf("%s: a connection gets %+v, %v", name, c, err)
		}
		var state tls.ConnectionState
		if tt.hosts != nil {
			state.PeerCertificates = []*x509.Certificate{{IPAddresses: tt.hosts}}
		}
		if err := c.VerifyConnection(state); (err == nil) != tt.good || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: the certificate is judged by %v, want that it is good: %v", name, err, tt.good)
		}
	}
	plain := &tls.Config{}
	checkAddresses(plain)
	c, err := plain.GetConfigForClient(&tls.ClientHelloInfo{Conn: placed{nil, "192.0.2.1", "127.0.0.1"}})
	if err != nil || c.VerifyConnection(tls.ConnectionState{}) != nil {
		t.Errorf("a port that judges by nothing else refuses: %v", err)
	}
}
