package rolling

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are files of an authority, and of a member at 127.0.0.1 that it has signed.
type certificates struct{ ca, cert, key string }

// newCertificates writes them to a directory.
func newCertificates(dir string) (certificates, *tls.Config, error) {
	c := certificates{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &authority.PublicKey, authority)
	if err != nil {
		return c, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"}, NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, authority)
	if err != nil {
		return c, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return c, nil, err
	}
	for path, block := range map[string]*pem.Block{
		c.ca: {Type: "CERTIFICATE", Bytes: rootDER}, c.cert: {Type: "CERTIFICATE", Bytes: leafDER}, c.key: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return c, nil, err
		}
	}
	trusted, err := x509.ParseCertificate(rootDER)
	if err != nil {
		return c, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(trusted)
	return c, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// newTokenKey writes the keys of signed tokens, and returns the option --auth-token that names them.
func newTokenKey(dir, ttl string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	secret, open := filepath.Join(dir, "token.key"), filepath.Join(dir, "token.pub")
	if err := os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(open, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		return "", err
	}
	return "--auth-token=jwt,sign-method=ES256,pub-key=" + open + ",priv-key=" + secret + ",ttl=" + ttl, nil
}
