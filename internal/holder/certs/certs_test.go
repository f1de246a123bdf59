package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair writes a certificate and its key to files.
func pair(t *testing.T) (cert, key string, der []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err = x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), der
}

// TestRead: each option has its effect and no other, and what cannot be used is told.
func TestRead(t *testing.T) {
	cert, key, der := pair(t)
	_, otherKey, _ := pair(t)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	missing := filepath.Join(t.TempDir(), "missing")
	for what, tt := range map[string]struct {
		options      map[string]string
		roots, shows bool
		server       string
		err          string // a part of it
		is           error
	}{
		"none":                       {},
		"a server's name":            {options: map[string]string{"servername": "a.example"}, server: "a.example"},
		"authorities":                {options: map[string]string{"cacert": cert}, roots: true},
		"a certificate and its key":  {options: map[string]string{"cert": cert, "key": key}, shows: true},
		"all":                        {options: map[string]string{"cacert": cert, "cert": cert, "key": key, "servername": "a.example"}, roots: true, shows: true, server: "a.example"},
		"one that is unknown":        {options: map[string]string{"cacert": cert, "insecure": "true"}, err: `option "insecure" is unknown; there are cacert, cert, key, servername`},
		"authorities that are gone":  {options: map[string]string{"cacert": missing}, err: "cacert: ", is: fs.ErrNotExist},
		"authorities that are a key": {options: map[string]string{"cacert": key}, err: "holds no PEM certificate"},
		"a certificate alone":        {options: map[string]string{"cert": cert}, err: "give both or none"},
		"a key alone":                {options: map[string]string{"key": key}, err: "give both or none"},
		"a certificate that is gone": {options: map[string]string{"cert": missing, "key": key}, err: "cert and key: ", is: fs.ErrNotExist},
		"another's key":              {options: map[string]string{"cert": cert, "key": otherKey}, err: "cert and key: "},
	} {
		options := url.Values{}
		for name, value := range tt.options {
			options.Set(name, value)
		}
		cfg, err := Read(options)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%s: %v, want an error with %q", what, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if cfg.MinVersion != tls.VersionTLS12 || cfg.InsecureSkipVerify || cfg.ServerName != tt.server {
			t.Errorf("%s: at least version %#x, unchecked: %v, of the server %q; want TLS 1.2, checked, of %q", what, cfg.MinVersion, cfg.InsecureSkipVerify, cfg.ServerName, tt.server)
		}
		if (cfg.RootCAs != nil) != tt.roots || tt.roots && !cfg.RootCAs.Equal(roots) {
			t.Errorf("%s: authorities of its own: %v, want those of the file: %v", what, cfg.RootCAs != nil, tt.roots)
		}
		if (len(cfg.Certificates) == 1) != tt.shows || tt.shows && !bytes.Equal(cfg.Certificates[0].Certificate[0], der) {
			t.Errorf("%s: %d certificates of its own, want that of the file: %v", what, len(cfg.Certificates), tt.shows)
		}
	}
}
