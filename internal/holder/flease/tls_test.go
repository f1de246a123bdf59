package flease_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// authority is TLS for peers, with one certificate for all.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// TestTLS: peers with certificates of one authority agree, without a peer with another's.
func TestTLS(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.TLS = authority(t)
	c := newCluster(t, 3, cfg)
	c.ready()
	l := c.peers[0].Leaser()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.peers[2].Close(); err != nil {
		t.Fatal(err)
	}
	c.cfg.TLS = authority(t)
	c.start(2, listen(t, c.addr(2)))
	stranger := c.peers[2].Leaser()
	defer stranger.Close()
	if lease, err := stranger.TryAcquire(t.Context(), tenure.Claim{Name: "y", TTL: time.Second}); err == nil {
		t.Errorf("a stranger has token %d", lease.Token())
	}
	if _, err = l.Acquire(t.Context(), tenure.Claim{Name: "y", TTL: time.Second}); err != nil {
		t.Fatalf("the two others: %v", err)
	}
}
