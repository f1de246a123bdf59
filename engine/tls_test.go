package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/certs"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/holder/redis"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key, a.file, _ = a.sign(template)
	return a
}

// sign returns a new key's certificate, and the files of both. The first is the authority's own.
func (a *authority) sign(template *x509.Certificate) (cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key, certFile, keyFile
}

// issue returns the files of a certificate for this machine, and of its key.
func (a *authority) issue() (certFile, keyFile string) {
	_, _, certFile, keyFile = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"tenure.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return certFile, keyFile
}

// options are those of a URL that names certificates.
func (a *authority) options(certFile, keyFile string) string {
	return url.Values{"cacert": {a.file}, "cert": {certFile}, "key": {keyFile}}.Encode()
}

// meet makes a handshake, and returns how it ended for each side.
func meet(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_, _ = conn.Read(make([]byte, 1)) // until the server has judged the client, and closes
		conn.Close()
	}
	return <-accepted, err
}

// A Flease peer with certificates takes part with peers of its authority only, whichever side
// dials.
func TestFleasePeersAuthenticateEachOther(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	cfg, err := flease.ReadURL("flease://a:1@a:1?" + ours.options(ours.issue()))
	if err != nil || cfg.TLS == nil {
		t.Fatalf("a URL with certificates makes a peer with TLS %v, %v", cfg.TLS, err)
	}
	foreign, err := certs.Read(url.Values{"cacert": {ours.file}})
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := theirs.issue()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	nobody := foreign.Clone()
	// A client shows a certificate that nobody asked for, so that the server has to judge it.
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }

	if atServer, atClient := meet(t, cfg.TLS, cfg.TLS); atServer != nil || atClient != nil {
		t.Errorf("two peers of one authority: %v and %v, want them to meet", atServer, atClient)
	}
	if atServer, _ := meet(t, cfg.TLS, nobody); atServer == nil {
		t.Error("a process without a certificate is let in")
	}
	var unknown *tls.CertificateVerificationError
	if atServer, _ := meet(t, cfg.TLS, foreign); !errors.As(atServer, &unknown) {
		t.Errorf("a process with another authority's certificate: %v, want it to be refused for that", atServer)
	}
	if _, atClient := meet(t, &tls.Config{Certificates: []tls.Certificate{pair}}, cfg.TLS); !errors.As(atClient, &unknown) {
		t.Errorf("a listener with another authority's certificate: %v, want it to be refused for that", atClient)
	}
}

// Certificates of peers are given together or not at all: two of them would protect nothing.
func TestFleaseNeedsAllCertificates(t *testing.T) {
	ca := newAuthority(t)
	certFile, keyFile := ca.issue()
	all := url.Values{"cacert": {ca.file}, "cert": {certFile}, "key": {keyFile}}
	for _, missing := range []string{"cacert", "cert", "key"} {
		some := url.Values{}
		for name, value := range all {
			if name != missing {
				some[name] = value
			}
		}
		_, err := flease.ReadURL("flease://a:1@a:1?" + some.Encode())
		wantURLError(t, err, missing+" is missing")
	}
	_, err := flease.ReadURL("flease://a:1@a:1?servername=x")
	wantURLError(t, err, "cacert is missing")
}

// A client of a server with TLS talks to one that its authority vouches for by the name that
// was dialed, or that the URL gives, and shows its own certificate.
func TestClientsAuthenticateServers(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for scheme, read := range map[string]func(string) (*tls.Config, error){
		"etcds":  func(u string) (*tls.Config, error) { cfg, err := etcd.ReadURL(u); return cfg.TLS, err },
		"rediss": func(u string) (*tls.Config, error) { cfg, err := redis.ReadURL(u); return cfg.TLS, err },
	} {
		open := func(options string) *tls.Config {
			t.Helper()
			cfg, err := read(scheme + "://a?" + options)
			if err != nil || cfg == nil {
				t.Fatalf("%s makes a client with TLS %v, %v", scheme, cfg, err)
			}
			return cfg
		}
		asking := func(a *authority) *tls.Config { // a server of that authority, with clients of ours
			certFile, keyFile := a.issue()
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AddCert(ours.cert)
			return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		}
		cfg := open(ours.options(ours.issue()))
		if atServer, atClient := meet(t, asking(ours), cfg); atServer != nil || atClient != nil {
			t.Errorf("%s: %v and %v, want them to meet", scheme, atServer, atClient)
		}
		var unknown *tls.CertificateVerificationError
		if _, atClient := meet(t, asking(theirs), cfg); !errors.As(atClient, &unknown) {
			t.Errorf("%s: a server of another authority: %v, want it to be refused for that", scheme, atClient)
		}
		named := open(ours.options(ours.issue()) + "&servername=tenure.test")
		if atServer, atClient := meet(t, asking(ours), named); atServer != nil || atClient != nil {
			t.Errorf("%s: by another name: %v and %v, want them to meet", scheme, atServer, atClient)
		}
		misnamed := open(ours.options(ours.issue()) + "&servername=other.test")
		if _, atClient := meet(t, asking(ours), misnamed); !errors.As(atClient, &unknown) {
			t.Errorf("%s: a server of another name: %v, want it to be refused for that", scheme, atClient)
		}
		if open("").RootCAs != nil {
			t.Errorf("%s: without cacert it trusts others than the system's authorities", scheme)
		}
		if cfg.MinVersion != tls.VersionTLS12 {
			t.Errorf("%s: the oldest version is %x, want TLS 1.2", scheme, cfg.MinVersion)
		}
	}
}

func wantURLError(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %v with %q", err, ErrURL, says)
	}
}
