package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// selfCertDir is where etcd keeps the certificates that it makes, below its data directory.
const selfCertDir = "fixtures"

// selfCert is a certificate that a member makes for itself. It shows nobody that the member is the one that
// is meant, so what it is good for is that nobody reads along.
type selfCert struct {
	dir   string // where it is kept
	years uint
	hosts []string // that it names
	now   func() time.Time
}

// files returns the certificate and its key, which are made if there are none, or if the certificate has expired.
func (s selfCert) files(logger *slog.Logger) (cert, key string, err error) {
	cert, key = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	switch pair, err := tls.LoadX509KeyPair(cert, key); {
	case err == nil && s.now().Before(pair.Leaf.NotAfter):
		return cert, key, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("the certificate that this member made for itself: %w; remove %s, and it makes another", err, s.dir)
	}
	if s.years < 1 || s.years > 100 {
		return "", "", fmt.Errorf("--self-signed-cert-validity %d: want from 1 to 100 years", s.years)
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", "", err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"tenure"}},
		NotBefore: s.now().Add(-time.Hour), NotAfter: s.now().AddDate(int(s.years), 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if host != "" {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &secret.PublicKey, secret)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", "", err
	}
	// The certificate comes last, so that a start that dies between leaves none.
	if err := os.Remove(cert); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{{key, "EC PRIVATE KEY", private}, {cert, "CERTIFICATE", der}} {
		if err := replaceFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})); err != nil {
			return "", "", err
		}
	}
	logger.Warn("this member made a certificate for itself: nobody can tell it from a stranger's", "file", cert, "until", c.NotAfter)
	return cert, key, nil
}

// replaceFile writes a file of this user's as a whole.
func replaceFile(path string, text []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// hostsOf are the hosts of URLs, each once.
func hostsOf(urls []string) (hosts []string) {
	seen := map[string]bool{}
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil && !seen[u.Hostname()] {
			seen[u.Hostname()] = true
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// selfSign gives the port a certificate that the member makes for itself, if that is asked for, it has no other, and
// a URL is with TLS.
func (t *tlsOptions) selfSign(dataDir string, years uint, urls []string, logger *slog.Logger) (err error) {
	if !t.auto || !slices.ContainsFunc(urls, secureURL) {
		return nil
	}
	auto := t.prefix + "auto-tls"
	t.auto = false
	if t.set() {
		logger.Warn("--" + auto + " is ignored, because certificates are given")
		return nil
	}
	name := map[string]string{"": "client", "peer-": "peer"}[t.prefix]
	s := selfCert{dir: filepath.Join(dataDir, selfCertDir, name), years: years, hosts: hostsOf(urls), now: time.Now}
	t.cert, t.key, err = s.files(logger)
	t.selfMade = true
	return err
}
