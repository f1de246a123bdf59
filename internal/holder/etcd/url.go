package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// ReadURL reads an etcd or etcds URL. Its errors show no part of a password.
func ReadURL(whole string) (Config, error) {
	return checkURL(whole, func(cfg Config) error { return cfg.Check() })
}

// ReadURLOfUser is ReadURL for a caller that may know the user, or its password, from elsewhere. The URL may
// lack both.
func ReadURLOfUser(whole string) (Config, error) {
	return checkURL(whole, func(Config) error { return nil })
}

func checkURL(whole string, check func(Config) error) (Config, error) {
	cfg, err := readURL(whole)
	if err == nil {
		err = check(cfg)
	}
	if err != nil {
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, address.Hide(whole), err)
	}
	return cfg, nil
}

func readURL(whole string) (cfg Config, err error) {
	scheme, rest, _ := strings.Cut(whole, "://")
	if scheme != "etcd" && scheme != "etcds" {
		return cfg, fmt.Errorf("%q is not etcd or etcds", scheme)
	}
	hosts, query, _ := strings.Cut(rest, "?")
	who, hosts, known := address.CutUser(hosts)
	if known {
		if cfg.Username, cfg.Password, _, err = address.User(who); err != nil {
			return cfg, err
		}
		if cfg.Username == "" {
			return cfg, errors.New("there is a password or an @, and no user: write user:password@, or user@ and the option passwordfile")
		}
	} else if strings.Contains(query, "@") {
		defer func() {
			if err != nil {
				err = address.ErrQuestion
			}
		}()
	}
	if cfg.Endpoints, err = address.Hosts(strings.TrimSuffix(hosts, "/"), "2379"); err != nil {
		return cfg, err
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return cfg, err
	}
	if file := options.Get("passwordfile"); file != "" {
		if !known || cfg.Password != "" {
			return cfg, errors.New("passwordfile is for a user without a password: write user@ before the hosts")
		}
		if cfg.Password, err = ReadPassword(file); err != nil {
			return cfg, err
		}
	}
	delete(options, "passwordfile")
	if scheme == "etcds" {
		cfg.TLS, err = certs.Read(options)
		return cfg, err
	}
	for name := range options {
		return cfg, fmt.Errorf("option %q is for TLS only, or unknown: use etcds, or leave it out", name)
	}
	return cfg, nil
}

// ReadPassword reads a password from a file, without the end of its line.
func ReadPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("password: %s has not one line with a password", file)
	}
	return password, nil
}
