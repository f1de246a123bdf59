package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Read loads the files that the options cacert, cert and key name. Any option other than
// these and servername is an error.
func Read(options url.Values) (*tls.Config, error) {
	known := []string{"cacert", "cert", "key", "servername"}
	for name := range options {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("option %q is unknown; there are %s", name, strings.Join(known, ", "))
		}
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: options.Get("servername")}
	if file := options.Get("cacert"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cacert: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cacert: %s holds no PEM certificate", file)
		}
	}
	cert, key := options.Get("cert"), options.Get("key")
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together: give both or none")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
