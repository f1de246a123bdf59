package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// authority signs certificates for the loopback.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{key: newKey(t), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// mutual is a configuration that shows a certificate by a and demands one.
func (a authority) mutual(t *testing.T) *tls.Config {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	c := newCluster(t, 2, quick, func(_ machine.NodeID, c *Config) {
		c.TLS = a.mutual(t)
		c.Stream = func(_ machine.NodeID, _ []byte, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}
	})
	c[0].Send(2, []byte("secret"))
	c[1].waitMessage(1, "secret")
	if err := c[0].SendStream(context.Background(), 2, nil, io.LimitReader(endless{}, 3<<20)); err != nil {
		t.Error(err)
	}
	c[1].Close()
	c[0].wait("down 2")
}

func TestTLSRefusals(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	noCert := a.mutual(t)
	noCert.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	trusting := stranger.mutual(t) // trusts a, but shows a stranger's certificate
	trusting.RootCAs = a.mutual(t).RootCAs
	tests := []struct {
		name   string
		client *tls.Config
		log    string // at the server
	}{
		{"a certificate of another authority", trusting, "unknown authority"},
		{"no certificate", noCert, "didn't provide a certificate"},
		{"no TLS", nil, "TLS handshake"},
		{"the server is not trusted", stranger.mutual(t), "bad certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: "127.0.0.1:1"}, quick, func(c *Config) { c.TLS = a.mutual(t) })
			client := newMember(t, 2, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{1: server.addr}, quick, func(c *Config) { c.TLS = tt.client })
			server.waitLog(tt.log)
			poll(t, "the client's error", func() bool { return client.Stats(1).LastError != nil })
			if client.count("up 1") != 0 || client.Send(1, []byte("x")) {
				t.Error("messages can be sent")
			}
		})
	}
	ln := listen(t, "127.0.0.1:0")
	defer ln.Close()
	_, err := New(Config{Self: 1, Listener: ln, Deliver: func(machine.NodeID, [][]byte) {}, TLS: &tls.Config{}})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("TLS without a certificate: %v", err)
	}
}

// Certificates may come from functions, which read them anew.
func TestCertificatesFromFunctions(t *testing.T) {
	a := newAuthority(t)
	c := newCluster(t, 2, quick, func(_ machine.NodeID, c *Config) {
		c.TLS = a.mutual(t)
		cert := c.TLS.Certificates[0]
		c.TLS.Certificates = nil
		c.TLS.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
		c.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	})
	c[0].Send(2, []byte("secret"))
	c[1].waitMessage(1, "secret")
}

// A member that is dialed by name shows a certificate for that name, and not for its
// address.
func TestServerName(t *testing.T) {
	a := newAuthority(t)
	server := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.TLS = a.mutual(t)
		c.Answer = func([]byte) []byte { return []byte("here") }
	})
	cfg := a.mutual(t)
	if said, err := Ask(t.Context(), server.addr, cfg, nil, nil); string(said) != "here" {
		t.Errorf("a server with a certificate for its address: %q, %v", said, err)
	}
	if cfg.ServerName != "" {
		t.Errorf("the caller's configuration is now for %q", cfg.ServerName)
	}
	cfg.ServerName = "elsewhere.example"
	var wrong x509.HostnameError
	if said, err := Ask(t.Context(), server.addr, cfg, nil, nil); !errors.As(err, &wrong) || wrong.Host != cfg.ServerName {
		t.Errorf("a server without a certificate for %s: %q, %v; want it refused", cfg.ServerName, said, err)
	}
}
