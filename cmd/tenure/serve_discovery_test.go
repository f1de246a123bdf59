package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
)

// records are SRV records, by _service._proto.domain.
type records map[string][]*net.SRV

func (r records) LookupSRV(ctx context.Context, service, proto, domain string) (string, []*net.SRV, error) {
	if end, ends := ctx.Deadline(); !ends || time.Until(end) > discoveryPatience {
		return "", nil, errors.New("a server of names that is silent would be asked for ever")
	}
	key := "_" + service + "._" + proto + "." + domain
	if found, ok := r[key]; ok {
		return key, found, nil
	}
	return "", nil, errors.New("no record " + key)
}

// Members are found in the records of both kinds, by this member's name and its URL; the suffix is one of the service.
func TestDiscoveryBySRV(t *testing.T) {
	dns := records{
		"_etcd-server-ssl._tcp.d":   {{Target: "a.d.", Port: 2380}, {Target: "b.d.", Port: 2380}},
		"_etcd-server._tcp.d":       {{Target: "c.d.", Port: 1}},
		"_etcd-server-ssl-x._tcp.d": {{Target: "a.d.", Port: 9}},
	}
	for _, tt := range []struct {
		suffix, self string
		want         map[string]string
		wrong        string
	}{
		{"", "https://a.d:2380", map[string]string{"me": "https://a.d:2380", "at https://b.d:2380": "https://b.d:2380", "at http://c.d:1": "http://c.d:1"}, ""},
		{"x", "https://a.d:9", map[string]string{"me": "https://a.d:9"}, ""},
		{"", "http://a.d:2380", nil, "names the members http://c.d:1, https://a.d:2380, https://b.d:2380: --initial-advertise-peer-urls http://a.d:2380 should be one of them"},
		{"y", "https://a.d:9", nil, "names no members: "},
	} {
		d := discovery{domain: "d", service: tt.suffix, dns: dns}
		got, err := d.find(t.Context(), "me", tt.self)
		if !maps.Equal(got, tt.want) || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("suffix %q, at %s: %v, %v; want %v, %q", tt.suffix, tt.self, got, err, tt.want, tt.wrong)
		}
	}
}

// A first start goes by the records, a later one does without, and --initial-cluster goes with neither.
func TestServeDiscovers(t *testing.T) {
	dir := t.TempDir()
	config := func(args ...string) (map[string]string, error) {
		t.Helper()
		o, err := parse(t, append([]string{
			"--name", "me", "--data-dir", dir, "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
			"--initial-advertise-peer-urls", "http://a.d:1", "--discovery-srv", "d",
		}, args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		o.discovery.dns = records{"_etcd-server._tcp.d": {{Target: "a.d.", Port: 1}, {Target: "b.d.", Port: 1}}}
		cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return nil, err
		}
		cfg.Node.PeerListener.Close()
		cfg.Clients[0].Close()
		return cfg.Node.Peers, nil
	}
	if peers, err := config(); err != nil || len(peers) != 2 || peers["me"] != "http://a.d:1" {
		t.Errorf("a first start: %v, %v; want the members of both records", peers, err)
	}
	if _, err := config("--initial-cluster", "me=http://a.d:1"); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("with --initial-cluster: %v, want it refused", err)
	}
	if _, err := config("--discovery-srv", "no.domain"); err == nil || !strings.Contains(err.Error(), "--discovery-srv no.domain names no members") {
		t.Errorf("a first start without records: %v, want it refused", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if peers, err := config(); err != nil || len(peers) != 1 {
		t.Errorf("a later start: %v, %v; want this member alone, as its log knows the others", peers, err)
	}
}

// silent is a server of names that does not answer about one kind of record.
type silent struct {
	records
	service string
	err     *net.DNSError
}

func (s silent) LookupSRV(ctx context.Context, service, proto, domain string) (string, []*net.SRV, error) {
	if service == s.service {
		return "", nil, s.err
	}
	return s.records.LookupSRV(ctx, service, proto, domain)
}

// A host that boots may have no names yet, so its member is started again (69). One whose setting is wrong is not (64).
func TestDNSThatIsSilentIsNoSetting(t *testing.T) {
	late, none := &net.DNSError{Err: "i/o timeout", IsTimeout: true}, &net.DNSError{Err: "no such host", IsNotFound: true}
	other := records{"_etcd-server._tcp.d": {{Target: "b.d.", Port: 1}}}
	for name, tt := range map[string]struct {
		dns  directory
		code int
	}{
		"an answer that is late":              {silent{nil, "etcd-server", late}, cli.ExitUnavailable},
		"one that is late beside another's":   {silent{other, "etcd-server-ssl", late}, cli.ExitUnavailable},
		"no record":                           {silent{nil, "etcd-server", none}, cli.ExitUsage},
		"no record beside those of the other": {silent{other, "etcd-server-ssl", none}, cli.ExitUsage},
	} {
		d := discovery{domain: "d", dns: tt.dns}
		_, err := d.find(t.Context(), "me", "https://a.d:2380")
		var exit cli.ExitError
		if !errors.As(cli.Usage(err), &exit) || exit.Code != tt.code {
			t.Errorf("%s: exit code %d (%v), want %d", name, exit.Code, err, tt.code)
		}
	}
}

// A member tells in its log what it has found by DNS, and what may cost its operator data.
func TestServeTellsWhatItDoes(t *testing.T) {
	_, cert, key := certificates(t)
	for says, args := range map[string][]string{
		`level=INFO msg="members by DNS" domain=d urls="[http://a.d:1 http://b.d:1]"`: {"--discovery-srv", "d"},
		`level=ERROR msg="--unsafe-no-fsync: this member does not sync its disk;`:     {"--unsafe-no-fsync"},
		`level=WARN msg="--auto-tls is ignored, because certificates are given"`:      {"--auto-tls", "--cert-file", cert, "--key-file", key, "--listen-client-urls", "https://127.0.0.1:0"},
		"": nil,
	} {
		var log bytes.Buffer
		o, err := parse(t, append([]string{
			"--name", "me", "--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://a.d:1",
		}, args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		o.listenClientURLs = o.listenClientURLs[len(o.listenClientURLs)-1:]
		o.discovery.dns = records{"_etcd-server._tcp.d": {{Target: "b.d.", Port: 1}, {Target: "a.d.", Port: 1}}}
		cfg, err := o.config(slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		cfg.Node.PeerListener.Close()
		cfg.Clients[0].Close()
		if got := log.String(); !strings.Contains(got, says) || strings.Count(got, "\n") != len(args[:min(1, len(args))]) {
			t.Errorf("%q: the log says %q, want %q and nothing more", args, got, says)
		}
	}
}
