package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/holder/address"
)

// TestURLs: what each part of a URL says, and what each mistake is answered with.
func TestURLs(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("in a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		url            string
		hosts          []string
		user, password string
		secure         bool
		err            string
	}{
		{url: "etcd://a", hosts: []string{"a:2379"}},
		{url: "etcd://a:1,b/", hosts: []string{"a:1", "b:2379"}},
		{url: "etcds://a", hosts: []string{"a:2379"}, secure: true},
		{url: "etcds://a?servername=b", hosts: []string{"a:2379"}, secure: true},
		{url: "etcd://u:p%40q@a", hosts: []string{"a:2379"}, user: "u", password: "p@q"},
		{url: "etcd://u@a?passwordfile=" + secret, hosts: []string{"a:2379"}, user: "u", password: "in a file"},
		{url: "etcds://u@a?passwordfile=" + secret, hosts: []string{"a:2379"}, user: "u", password: "in a file", secure: true},
		{url: "redis://a", err: `"redis" is not etcd or etcds`},
		{url: "etcd://", err: "an address is empty"},
		{url: "etcd://:p@a", err: "there is a password or an @, and no user"},
		{url: "etcd://@a", err: "there is a password or an @, and no user"},
		{url: "etcd://u@a", err: "there is a user and no password"},
		{url: "etcd://u:%zz@a", err: "begins no escape"},
		{url: "etcd://u:pa?ss@a", err: "write the ? as %3f"},
		{url: "etcd://a?%zz", err: "invalid URL escape"},
		{url: "etcd://a?cacert=x", err: `option "cacert" is for TLS only`},
		{url: "etcd://a?passwordfile=" + secret, err: "passwordfile is for a user without a password"},
		{url: "etcd://u:p@a?passwordfile=" + secret, err: "passwordfile is for a user without a password"},
		{url: "etcd://u@a?passwordfile=" + secret + ".none", err: "no such file"},
		{url: "etcds://a?cacert=" + secret + ".none", err: "no such file"},
	} {
		cfg, err := ReadURL(tt.url)
		if tt.err != "" {
			if err == nil || !errors.Is(err, address.ErrURL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s is read with %v, want an error about it that has %q", tt.url, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(cfg.Endpoints, tt.hosts) || cfg.Username != tt.user || cfg.Password != tt.password || (cfg.TLS != nil) != tt.secure {
			t.Errorf("%s is read as hosts %v, user %q with password %q, TLS %v, %v; want %+v", tt.url, cfg.Endpoints, cfg.Username, cfg.Password, cfg.TLS != nil, err, tt)
		}
	}
	if cfg, err := ReadURLOfUser("etcd://u@a"); err != nil || cfg.Username != "u" || cfg.Password != "" {
		t.Errorf("a user whose password comes from elsewhere is read as %q with %q, %v", cfg.Username, cfg.Password, err)
	}
}

// TestTheClientThatIsAskedFor: all that a config says goes to the client, and a dead connection is noticed in time.
func TestTheClientThatIsAskedFor(t *testing.T) {
	cfg, err := ReadURL("etcds://u:p@a,b?servername=c")
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.client()
	if !slices.Equal(got.Endpoints, cfg.Endpoints) || got.TLS != cfg.TLS || got.Username != "u" || got.Password != "p" || got.TLS.ServerName != "c" {
		t.Errorf("the client is made with %v, TLS %v, %q and %q; want what the config %+v says", got.Endpoints, got.TLS, got.Username, got.Password, cfg)
	}
	if dead := got.DialKeepAliveTime + got.DialKeepAliveTimeout; got.DialKeepAliveTime.Seconds() != 5 || dead.Seconds() != 8 {
		t.Errorf("a dead connection is asked about after %v and replaced after %v, want 5s and 8s", got.DialKeepAliveTime, dead)
	}
}
