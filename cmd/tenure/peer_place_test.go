package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// addressBook has the addresses of hosts, with blanks between; after "later" they are there from the third try on.
type addressBook map[string]string

func (n addressBook) LookupNetIP(ctx context.Context, network, host string) (found []netip.Addr, err error) {
	if end, ends := ctx.Deadline(); !ends || time.Until(end) > placePatience || network != "ip" {
		return nil, errors.New("a server of names that is silent would be asked for ever")
	}
	for at := range strings.FieldsSeq(n[host]) {
		if at == "later" {
			n[host] = strings.TrimPrefix(n[host], "later ")
			return nil, errors.New("no such host " + host)
		}
		found = append(found, netip.MustParseAddr(at))
	}
	if len(found) == 0 {
		return nil, errors.New("no such host " + host)
	}
	return found, nil
}

// Two URLs are one place if their hosts have an address in common, whatever their letters. A name that is not known yet is
// tried again, for 30 s.
func TestURLsOfOnePlace(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		wrong string // none: they are one place
		took  time.Duration
	}{
		{"http://a:1", "http://a:1", "", 0},
		{"http://unheard:1", "http://UNHEARD:1", "", 0},
		{"http://a:1", "http://10.0.0.1:1", "", 0},
		{"http://10.0.0.1:1", "http://a:1", "", 0},
		{"http://a:1", "http://b:1", "", 0},
		{"http://a:1", "http://[::ffff:10.0.0.1]:1", "", 0},
		{"http://six:1", "http://[0:0::1]:1", "", 0},
		{"http://slow:1", "http://a:1", "", 2 * time.Second},
		{"http://a:1", "http://c:1", "a is at [10.0.0.1] and c at [10.0.0.3]", 0},
		{"http://a:1", "https://a:1", "schemes and ports differ", 0},
		{"http://a:1", "http://a:2", "schemes and ports differ", 0},
		{"http://localhost:1", "http://127.0.0.1:1", "localhost is another host", 0},
		{"http://127.0.0.1:1", "http://localhost:1", "localhost is another host", 0},
		{"http://a:1", "http://unheard:1", "unheard has no address: no such host unheard", placePatience},
		{"http://unheard:1", "http://a:1", "unheard has no address: no such host unheard", placePatience},
		{"http://a:1", "http://a:x", "invalid port", 0},
		{"http://a:x", "http://a:1", "invalid port", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			dns := addressBook{"a": "10.0.0.1", "b": "10.0.0.2 10.0.0.1", "c": "10.0.0.3", "six": "::1", "slow": "later later ::ffff:10.0.0.1"}
			begun := time.Now()
			err := onePlace(t.Context(), dns, tt.a, tt.b)
			if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s and %s: %v, want %q", tt.a, tt.b, err, tt.wrong)
			}
			if took := time.Since(begun); took != tt.took {
				t.Errorf("%s and %s are compared for %v, want %v", tt.a, tt.b, took, tt.took)
			}
		})
	}
}

// A member may call itself by a name where --initial-cluster has its address, and is then in the cluster as all write it.
func TestServeResolvesItsOwnURL(t *testing.T) {
	for _, tt := range []struct{ cluster, advertised, wrong string }{
		{"default=http://10.0.0.1:2380,b=http://b:2380", "http://a:2380", ""},
		{"default=http://a:2380,b=http://b:2380", "http://10.0.0.1:2380", ""},
		{"default=http://10.0.0.2:2380,b=http://b:2380", "http://a:2380", "they must agree: 10.0.0.2 is at [10.0.0.2] and a at [10.0.0.1]"},
	} {
		o, err := parse(t, []string{
			"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
			"--initial-cluster", tt.cluster, "--initial-advertise-peer-urls", tt.advertised,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if o.hosts == nil {
			t.Fatal("names are not resolved outside of tests")
		}
		o.hosts = addressBook{"a": "10.0.0.1"}
		cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s and %s: %v, want %q", tt.cluster, tt.advertised, err, tt.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s and %s: %v", tt.cluster, tt.advertised, err)
			continue
		}
		cfg.Node.PeerListener.Close()
		cfg.Clients[0].Close()
		want, err := parseCluster(tt.cluster)
		if err != nil || !maps.Equal(cfg.Node.Peers, want) {
			t.Errorf("%s and %s: the members are %v, %v; want %v", tt.cluster, tt.advertised, cfg.Node.Peers, err, want)
		}
	}
}
