package etcd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// ReadURL reads an etcd or etcds URL.
func ReadURL(whole string) (Config, error) {
	cfg, err := readURL(whole)
	if err != nil {
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, whole, err)
	}
	return cfg, nil
}

func readURL(whole string) (cfg Config, err error) {
	scheme, rest, _ := strings.Cut(whole, "://")
	if scheme != "etcd" && scheme != "etcds" {
		return cfg, fmt.Errorf("%q is not etcd or etcds", scheme)
	}
	hosts, query, _ := strings.Cut(rest, "?")
	if cfg.Endpoints, err = address.Hosts(strings.TrimSuffix(hosts, "/"), "2379"); err != nil {
		return cfg, err
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return cfg, err
	}
	if scheme == "etcds" {
		cfg.TLS, err = certs.Read(options)
		return cfg, err
	}
	for name := range options {
		return cfg, fmt.Errorf("option %q is for TLS only, or unknown: use etcds, or leave it out", name)
	}
	return cfg, nil
}
