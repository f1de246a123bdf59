package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// A certificate that a member makes names its hosts, holds as long as is said, is kept, and is made anew when it
// has expired. Its key is for this user alone.
func TestSelfCert(t *testing.T) {
	now := time.Now()
	s := selfCert{dir: filepath.Join(t.TempDir(), "a", "b"), years: 2, hosts: []string{"127.0.0.1", "db1", ""}, now: func() time.Time { return now }}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	load := func() *x509.Certificate {
		t.Helper()
		cert, key, err := s.files(logger)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key is %v, %v; want it for this user alone", info, err)
		}
		return pair.Leaf
	}
	first := load()
	if err := first.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if err := first.VerifyHostname("db1"); err != nil || len(first.DNSNames) != 1 {
		t.Errorf("names %q, %v; want db1", first.DNSNames, err)
	}
	if got := first.NotAfter.Sub(now); got < 729*24*time.Hour || got > 732*24*time.Hour {
		t.Errorf("it holds for %v, want two years", got)
	}
	if u := first.ExtKeyUsage; !slices.Equal(u, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}) || first.KeyUsage&x509.KeyUsageDigitalSignature == 0 || !first.IsCA {
		t.Errorf("it is for %v and %b, of an authority: %v; want it to serve, to dial, and to be its own authority", u, first.KeyUsage, first.IsCA)
	}
	if from := now.Sub(first.NotBefore); from < 59*time.Minute || from > 61*time.Minute || first.SerialNumber.BitLen() < 64 || !slices.Equal(first.Subject.Organization, []string{"tenure"}) {
		t.Errorf("it holds from %v before now, with the number %v, of %v; want an hour, for clocks that are behind, one of its own, and tenure", from, first.SerialNumber, first.Subject)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v; want it for this user alone", info, err)
	}
	if !strings.Contains(log.String(), "nobody can tell it from a stranger's") {
		t.Errorf("the log does not say what it is worth: %s", &log)
	}
	if again := load(); !again.Equal(first) {
		t.Error("a second start made another certificate, want the first kept")
	}
	now = now.AddDate(2, 0, 1)
	if later := load(); later.Equal(first) || later.NotAfter.Before(now) {
		t.Errorf("the first has expired, and the certificate of a later start holds until %v", later.NotAfter)
	}
	if err := os.Remove(filepath.Join(s.dir, "cert.pem")); err != nil {
		t.Fatal(err)
	}
	load() // as after a start that died between
	if err := os.WriteFile(filepath.Join(s.dir, "cert.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.files(logger); err == nil || !strings.Contains(err.Error(), "remove "+s.dir) {
		t.Errorf("a damaged one: %v, want it told", err)
	}
	for _, years := range []uint{1, 100} {
		s := selfCert{dir: t.TempDir(), years: years, now: time.Now}
		if _, _, err := s.files(logger); err != nil {
			t.Errorf("%d years: %v", years, err)
		}
	}
	for _, years := range []uint{0, 101} {
		s := selfCert{dir: t.TempDir(), years: years, now: time.Now}
		if _, _, err := s.files(logger); err == nil || !strings.Contains(err.Error(), "--self-signed-cert-validity") {
			t.Errorf("%d years: %v, want it refused", years, err)
		}
	}
}

// A certificate that a port gets names all hosts at which others may dial it, and each port has its own.
func TestASelfCertNamesAllHosts(t *testing.T) {
	dir := t.TempDir()
	for prefix, name := range map[string]string{"": "client", "peer-": "peer"} {
		port := &tlsOptions{prefix: prefix, auto: true}
		if err := port.selfSign(dir, 1, []string{"https://a:1", "https://[::1]:2", "https://b:3", "https://a:4"}, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(port.cert, port.key)
		if err != nil {
			t.Fatal(err)
		}
		if c := pair.Leaf; !slices.Equal(c.DNSNames, []string{"a", "b"}) || len(c.IPAddresses) != 1 || c.IPAddresses[0].String() != "::1" || !port.selfMade || filepath.Dir(port.cert) != filepath.Join(dir, "fixtures", name) {
			t.Errorf("the certificate %s is for %q and %v, made by itself: %v; want all hosts, below fixtures/%s", port.cert, c.DNSNames, c.IPAddresses, port.selfMade, name)
		}
	}
}

// A start that dies while it renews a certificate leaves no certificate beside another's key.
func TestASelfCertIsMadeWhole(t *testing.T) {
	now := time.Now()
	s := selfCert{dir: t.TempDir(), years: 1, now: func() time.Time { return now }}
	logger := slog.New(slog.DiscardHandler)
	cert, key, err := s.files(logger)
	if err != nil {
		t.Fatal(err)
	}
	now = now.AddDate(2, 0, 0)
	if err := os.Mkdir(key+".tmp", 0o700); err != nil { // the key cannot be written
		t.Fatal(err)
	}
	if _, _, err := s.files(logger); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("a key that cannot be written: %v, want it told", err)
	}
	if _, err := os.Stat(cert); !os.IsNotExist(err) {
		t.Errorf("the key could not be written, and a certificate is there: %v", err)
	}
}

// Three members with certificates of their own making find each other, and serve clients that do not verify.
func TestServeWithCertificatesOfItsOwn(t *testing.T) {
	at := freeAddresses(t, 6)
	var cluster []string
	for i, name := range []string{"a", "b", "c"} {
		cluster = append(cluster, name+"=https://"+at[i])
	}
	for i, name := range []string{"a", "b", "c"} {
		dir := t.TempDir()
		o, err := parse(t, []string{
			"--name", name, "--data-dir", dir, "--initial-cluster", strings.Join(cluster, ","), "--listen-peer-urls", "https://" + at[i],
			"--initial-advertise-peer-urls", "https://" + at[i], "--listen-client-urls", "https://" + at[3+i], "--auto-tls", "--peer-auto-tls",
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
		for _, of := range []string{"client", "peer"} {
			if _, err := os.Stat(filepath.Join(dir, "fixtures", of, "cert.pem")); err != nil {
				t.Error(err)
			}
		}
	}
	if err := puts(t, clientv3.Config{Endpoints: []string{"https://" + at[3]}, TLS: &tls.Config{InsecureSkipVerify: true}}, time.Minute); err != nil {
		t.Errorf("a put: %v", err)
	}
	if err := puts(t, clientv3.Config{Endpoints: []string{"https://" + at[3]}, TLS: &tls.Config{}}, time.Second); err == nil {
		t.Error("a client that verifies took a certificate of nobody's")
	}
}

// Certificates that are given win over those that would be made.
func TestServeSelfSignsOnlyWhereItIsMeant(t *testing.T) {
	_, cert, key := certificates(t)
	for _, prefix := range []string{"", "peer-"} {
		dir := t.TempDir()
		clients, peers, err := ports(t, "--"+prefix+"auto-tls", "--data-dir", dir, "--cert-file", cert, "--key-file", key, "--peer-cert-file", cert, "--peer-key-file", key)
		if err != nil {
			t.Fatal(err)
		}
		if clients.InsecureSkipVerify || peers.InsecureSkipVerify {
			t.Errorf("--%sauto-tls beside certificates: others are not verified", prefix)
		}
		if _, err := os.Stat(filepath.Join(dir, "fixtures")); err == nil {
			t.Errorf("--%sauto-tls beside certificates makes others", prefix)
		}
	}
}
