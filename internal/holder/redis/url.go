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
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, hidden(whole), err)
	}
	return cfg, nil
}

// hidden leaves the password out of a URL.
func hidden(whole string) string {
	scheme, rest, _ := strings.Cut(whole, "://")
	if _, servers, ok := cutLast(rest, "@"); ok {
		return scheme + "://…@" + servers
	}
	return whole
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

func readURL(whole string) (cfg Config, err error) {
	scheme, rest, _ := strings.Cut(whole, "://")
	if scheme != "redis" && scheme != "rediss" {
		return cfg, fmt.Errorf("%q is not redis or rediss", scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	who, rest, known := cutLast(rest, "@")
	if known {
		user, password, secret := strings.Cut(who, ":")
		if !secret {
			return cfg, errors.New("write user:password@, or :password@ without a user")
		}
		var bad, worse error
		cfg.Username, bad = url.PathUnescape(user)
		cfg.Password, worse = url.PathUnescape(password)
		if bad != nil || worse != nil { // which would quote a part of the password
			return cfg, errors.New("a user or password has a % that begins no escape: write it as %25")
		}
	} else if strings.Contains(query, "@") {
		defer func() {
			if err != nil { // it may quote the first part of a password
				err = errors.New("if that is a password with a ? in it, write the ? as %3f; else an address or the number of a database is wrong")
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
