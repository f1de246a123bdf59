package engine

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenure-lease/tenure/engine/etcd"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// Etcd reads an etcd or etcds URL. It is for those who need etcd's own client
// beside the Leaser.
func Etcd(whole string) (etcd.Config, error) {
	cfg, err := etcdConfig(whole)
	if err != nil {
		return cfg, fmt.Errorf("%w %q: %w", ErrURL, whole, err)
	}
	return cfg, nil
}

func etcdConfig(whole string) (cfg etcd.Config, err error) {
	scheme, rest, _ := strings.Cut(whole, "://")
	if scheme != "etcd" && scheme != "etcds" {
		return cfg, fmt.Errorf("%q is not etcd or etcds", scheme)
	}
	hosts, query, _ := strings.Cut(rest, "?")
	if cfg.Endpoints, err = addresses(strings.TrimSuffix(hosts, "/"), "2379"); err != nil {
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

// addresses reads hosts with commas in between. Where a port is missing it is the usual one.
func addresses(hosts, usual string) ([]string, error) {
	var all []string
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("an address is empty: write host:port, with commas in between")
		}
		if strings.ContainsAny(host, "/@") {
			return nil, fmt.Errorf("address %q has more than a host and a port", host)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), usual)
		}
		_, port, err := net.SplitHostPort(host)
		if err != nil {
			return nil, err
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("address %q: %q is not a port", host, port)
		}
		all = append(all, host)
	}
	return all, nil
}
