package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// ReadURL reads a redis or rediss URL. Its errors show no part of a password.
func ReadURL(whole string) (Config, error) {
	cfg, err := readURL(whole)
	if err != nil {
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, address.Hide(whole), err)
	}
	return cfg, nil
}

func readURL(whole string) (cfg Config, err error) {
	scheme, rest, _ := strings.Cut(whole, "://")
	if scheme != "redis" && scheme != "rediss" {
		return cfg, fmt.Errorf("%q is not redis or rediss", scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	who, rest, known := address.CutUser(rest)
	if known {
		var secret bool
		if cfg.Username, cfg.Password, secret, err = address.User(who); err != nil {
			return cfg, err
		}
		if !secret {
			return cfg, errors.New("write user:password@, or :password@ without a user")
		}
	} else if strings.Contains(query, "@") {
		defer func() {
			if err != nil {
				err = address.ErrQuestion
			}
		}()
	}
	hosts, db, _ := strings.Cut(rest, "/")
	if db != "" {
		if cfg.DB, err = strconv.Atoi(db); err != nil || cfg.DB < 0 {
			return cfg, fmt.Errorf("%q is not the number of a database", db)
		}
	}
	if cfg.Addrs, err = address.Hosts(hosts, "6379"); err != nil {
		return cfg, err
	}
	if err := CheckAddrs(cfg.Addrs); err != nil {
		return cfg, err
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return cfg, err
	}
	cfg.Prefix = options.Get("prefix")
	delete(options, "prefix")
	if scheme == "rediss" {
		cfg.TLS, err = certs.Read(options)
		return cfg, err
	}
	for name := range options {
		return cfg, fmt.Errorf("option %q is for TLS only, or unknown: use rediss, or leave it out", name)
	}
	return cfg, nil
}
