package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/holder/address"
)

// TestURLs: what each part of a URL says, and what each mistake is answered with.
func TestURLs(t *testing.T) {
	for _, tt := range []struct {
		url            string
		hosts          []string
		user, password string
		db             int
		prefix         string
		secure         bool
		err            string
	}{
		{url: "redis://a", hosts: []string{"a:6379"}},
		{url: "redis://a:1,b/3?prefix=x", hosts: []string{"a:1", "b:6379"}, db: 3, prefix: "x"},
		{url: "redis://a/0", hosts: []string{"a:6379"}},
		{url: "rediss://u:p%40q@a/?servername=b&prefix=y", hosts: []string{"a:6379"}, user: "u", password: "p@q", prefix: "y", secure: true},
		{url: "redis://:p@a", hosts: []string{"a:6379"}, password: "p"},
		{url: "etcd://a", err: `"etcd" is not redis or rediss`},
		{url: "redis://", err: "an address is empty"},
		{url: "redis://u@a", err: "write user:password@"},
		{url: "redis://u:%zz@a", err: "begins no escape"},
		{url: "redis://u:pa?ss@a", err: "write the ? as %3f"},
		{url: "redis://a/x", err: `"x" is not the number of a database`},
		{url: "redis://a/-1", err: `"-1" is not the number of a database`},
		{url: "redis://a,a", err: "twice"},
		{url: "redis://a?%zz", err: "invalid URL escape"},
		{url: "redis://a?cacert=x", err: `option "cacert" is for TLS only`},
		{url: "rediss://a?cacert=/none/such", err: "no such file"},
	} {
		cfg, err := ReadURL(tt.url)
		if tt.err != "" {
			if err == nil || !errors.Is(err, address.ErrURL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s is read with %v, want an error about it that has %q", tt.url, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(cfg.Addrs, tt.hosts) || cfg.Username != tt.user || cfg.Password != tt.password ||
			cfg.DB != tt.db || cfg.Prefix != tt.prefix || (cfg.TLS != nil) != tt.secure {
			t.Errorf("%s is read as %+v, %v; want %+v", tt.url, cfg, err, tt)
		}
	}
}
