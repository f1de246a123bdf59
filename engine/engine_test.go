package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/machine"
)

func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		url  string
		want []string
	}{
		{"etcd://a:1", []string{"a:1"}},
		{"etcd://a", []string{"a:2379"}},
		{"etcd://a/", []string{"a:2379"}},
		{"etcd://a:1,b,10.0.0.1:3", []string{"a:1", "b:2379", "10.0.0.1:3"}},
		{"etcd://[::1]:1,[::2]", []string{"[::1]:1", "[::2]:2379"}},
		{"etcd://a:65535", []string{"a:65535"}},
		{"etcds://a", []string{"a:2379"}},
	} {
		cfg, err := etcd.ReadURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
		}
		if diff := cmp.Diff(c.want, cfg.Endpoints); diff != "" {
			t.Errorf("%s: %s", c.url, diff)
		}
		if secure := strings.HasPrefix(c.url, "etcds"); (cfg.TLS != nil) != secure {
			t.Errorf("%s: TLS is %v", c.url, cfg.TLS)
		}
	}
}

// TestUsersOfServers: the user and the password stand before the hosts, or the password in a file, without
// the end of its line.
func TestUsersOfServers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unix, dos, bare, two := write("unix", "in a file\n"), write("dos", "in a file\r\n"), write("bare", "in a file"), write("two", "in\na file\n")
	for url, want := range map[string]etcd.Config{
		"etcd://a":                                 {},
		"etcd://u:p%40:q@a,b:1":                    {Username: "u", Password: "p@:q"},
		"etcds://u:aGk+/w==@a?servername=a":        {Username: "u", Password: "aGk+/w=="},
		"etcd://a+b%3a:x@a/":                       {Username: "a+b:", Password: "x"},
		"etcd://u@a?passwordfile=" + unix:          {Username: "u", Password: "in a file"},
		"etcd://u@a?passwordfile=" + dos:           {Username: "u", Password: "in a file"},
		"etcds://u@a?cacert=&passwordfile=" + bare: {Username: "u", Password: "in a file"},
	} {
		cfg, err := etcd.ReadURL(url)
		if err != nil || cfg.Username != want.Username || cfg.Password != want.Password {
			t.Errorf("%s: user %q with password %q, %v; want %q with %q", url, cfg.Username, cfg.Password, err, want.Username, want.Password)
		}
	}
	if _, err := etcd.ReadURL("etcd://u@a?passwordfile=" + two); err == nil {
		t.Error("two lines are taken for a password")
	}
	if cfg, err := etcd.ReadURLOfUser("etcd://u@a"); err != nil || cfg.Username != "u" {
		t.Errorf("a user whose password comes from elsewhere: %q, %v", cfg.Username, err)
	}
}

func TestPaths(t *testing.T) {
	for url, want := range map[string][]string{
		"file:///mnt/leases":     {"/mnt/leases"},
		"file:///mnt/leases/":    {"/mnt/leases"},
		"file:///a,/b,/c":        {"/a", "/b", "/c"},
		"file:///a%2cb,/c%3f%20": {"/a,b", "/c? "},
		"file:///dev/sdx":        {"/dev/sdx"},
		"file:///":               {"/"},
		"file:///a//":            {"/a"},
		"file:///a+b":            {"/a+b"},
	} {
		cfg, err := file.ReadURL(url)
		if diff := cmp.Diff(want, cfg.Paths); err != nil || diff != "" {
			t.Errorf("%s: %v %s", url, err, diff)
		}
	}
}

func TestPeers(t *testing.T) {
	cfg, err := flease.ReadURL("flease://b:1@c:1,a:1,b:1/?t_max=10s&epsilon=5ms&round=20ms&cell=5&cluster=x&listen=:2&state=/var/x&clock=kernel")
	if err != nil {
		t.Fatal(err)
	}
	members, err := cfg.Membership(t.Context(), flease.Members{})
	want := flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"}}
	if diff := cmp.Diff(want, members); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	cfg.Membership = nil
	if diff := cmp.Diff(flease.Config{
		Self: "b:1", TMax: 10 * time.Second, Epsilon: 5 * time.Millisecond, RoundTimeout: 20 * time.Millisecond,
		Replicas: 5, Cluster: "x", Listen: ":2", State: "/var/x", CheckClock: true,
	}, cfg, cmpopts.IgnoreUnexported(flease.Config{})); diff != "" {
		t.Error(diff)
	}
	file := filepath.Join(t.TempDir(), "members+more")
	if err := os.WriteFile(file, []byte("epoch 7\n3 127.0.0.1:1 # we\n\n4 192.0.2.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err := flease.ReadURL("flease://a:1@a:1?clock=trust"); err != nil || cfg.CheckClock || cfg.TLS != nil {
		t.Errorf("a clock that is trusted: %+v, %v", cfg, err)
	}
	if cfg, err := flease.ReadURL("flease://a:1@a:1?cell=1&t_max=1ns"); err != nil || cfg.Replicas != 1 || cfg.TMax != 1 {
		t.Errorf("the least that can be asked for: %+v, %v", cfg, err)
	}
	if cfg, err = flease.ReadURL("flease://self@" + file); err != nil || cfg.Self != "127.0.0.1:1" {
		t.Errorf("from a file: %v, %v", cfg.Self, err)
	}
	path, socket, err := flease.SocketOfURL("flease:///run/x%3fy+z.sock")
	if path != "/run/x?y+z.sock" || !socket || err != nil {
		t.Errorf("%q, %v, %v", path, socket, err)
	}
	if _, socket, _ := flease.SocketOfURL("flease://a:1@a:1"); socket {
		t.Error("a peer is taken for a socket")
	}
}

// TestEachReadsItsOwn: the reader of one engine's URLs takes no other engine's.
func TestEachReadsItsOwn(t *testing.T) {
	readers := map[string]func(string) error{
		"etcd":   func(url string) error { _, err := etcd.ReadURL(url); return err },
		"file":   func(url string) error { _, err := file.ReadURL(url); return err },
		"redis":  func(url string) error { _, err := redis.ReadURL(url); return err },
		"flease": func(url string) error { _, err := flease.ReadURL(url); return err },
	}
	for _, c := range []struct{ scheme, rest, reader string }{
		{"etcd", "a", "etcd"}, {"etcds", "a", "etcd"}, {"file", "/a", "file"},
		{"redis", "a", "redis"}, {"rediss", "a", "redis"}, {"flease", "a:1@a:1", "flease"},
	} {
		for scheme, want := range map[string]bool{c.scheme: true, "zk": false, "etcd": c.reader == "etcd", "redis": c.reader == "redis", "file": c.reader == "file"} {
			err := readers[c.reader](scheme + "://" + c.rest)
			if (err == nil) != want || err != nil && !errors.Is(err, ErrURL) {
				t.Errorf("what reads the URLs of %s is given %s://%s: got %v", c.reader, scheme, c.rest, err)
			}
		}
	}
	for _, path := range []string{"/run/peer.sock", "file:///run/peer.sock", "flease:/run/peer.sock"} {
		if got, socket, err := flease.SocketOfURL(path); got != "" || socket || err != nil {
			t.Errorf("%s is taken for the socket of a peer: %q, %v", path, got, err)
		}
	}
}

func TestServers(t *testing.T) {
	for url, want := range map[string]redis.Config{
		"redis://a":                         {Addrs: []string{"a:6379"}},
		"redis://a,b:1,[::1]/3?prefix=x%2f": {Addrs: []string{"a:6379", "b:1", "[::1]:6379"}, DB: 3, Prefix: "x/"},
		"redis://u:p%40:q@a/":               {Addrs: []string{"a:6379"}, Username: "u", Password: "p@:q"},
		"redis://u:aGk+/w==@a":              {Addrs: []string{"a:6379"}, Username: "u", Password: "aGk+/w=="},
		"redis://a/0":                       {Addrs: []string{"a:6379"}},
		"redis://:secret@a":                 {Addrs: []string{"a:6379"}, Password: "secret"},
		"redis://a+b%3a:x@a":                {Addrs: []string{"a:6379"}, Username: "a+b:", Password: "x"},
	} {
		cfg, err := redis.ReadURL(url)
		if diff := cmp.Diff(want, cfg); err != nil || diff != "" {
			t.Errorf("%s: %v %s", url, err, diff)
		}
	}
	if cfg, err := redis.ReadURL("rediss://a?servername=b&prefix=x"); err != nil || cfg.TLS == nil || cfg.TLS.ServerName != "b" || cfg.Prefix != "x" {
		t.Errorf("with TLS: %+v, %v", cfg, err)
	}
}

// TestPasswordsAreNotTold: an error about a URL shows no part of a password.
func TestPasswordsAreNotTold(t *testing.T) {
	for _, url := range []string{
		"redis://u:secret@a/x",
		"redis://u:secret@a:http",
		"redis://:secret@a?cacert=x",
		"redis://secret@a",
		"redis://u:half@secret@a/x",
		"redis://u:secret%zz@a",
		"redis://u:secret?half@a",
		"redis://u/secret?half@a",
		"rediss://u:secret@a?cert=x",
		"etcd://u:secret@a/x",
		"etcd://u:secret@a:http",
		"etcd://:secret@a",
		"etcd://u:half@secret@a/x",
		"etcd://u:secret%zz@a",
		"etcd://u:secret?half@a",
		"etcds://u:secret@a?cert=x",
	} {
		_, err := Open(t.Context(), url)
		if err == nil || slices.ContainsFunc([]string{"secret", "half", "%z"}, func(part string) bool { return strings.Contains(err.Error(), part) }) || !errors.Is(err, ErrURL) {
			t.Errorf("%s: %v; want %v that tells no part of the password", url, err, ErrURL)
		}
	}
}

func TestBadURLs(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                                  "has no scheme: write for instance etcd://",
		"127.0.0.1:2379":                    "has no scheme: write for instance etcd://127.0.0.1:2379",
		"/tmp/shared":                       "has no scheme: write for instance file:///tmp/shared",
		"//a:2379":                          "has no scheme: write for instance etcd://a:2379",
		"~/shared":                          "has no scheme: write for instance file:///DIR, with the whole path",
		"./shared":                          "has no scheme: write for instance file:///DIR, with the whole path",
		"zk://a":                            `no engine is called "zk"; there are etcd, etcds`,
		"http://a:2379":                     "write etcd://a:2379",
		"https://a:2379":                    "write etcds://a:2379",
		"etcd://":                           "an address is empty",
		"etcd://a,,b":                       "an address is empty",
		"etcd://user@a":                     "there is a user and no password",
		"etcd://user:@a":                    "there is a user and no password",
		"etcd://:pw@a":                      "write user:password@",
		"etcd://@a":                         "write user:password@",
		"etcd://u%zz:p@a":                   "a user or password has a % that begins no escape",
		"etcd://u:p@a?passwordfile=x":       "passwordfile is for a user without a password",
		"etcd://a?passwordfile=x":           "passwordfile is for a user without a password",
		"etcd://u@a?passwordfile=/no":       "password: open /no",
		"etcd://u@a?passwordfile=/dev/null": "has not one line with a password",
		"etcd://a/path":                     "more than a host and a port",
		"etcd://a:http":                     `"http" is not a port`,
		"etcd://a:":                         `"" is not a port`,
		"etcd://a:-1":                       `"-1" is not a port`,
		"etcd://a[b":                        "unexpected '[' in address",
		"etcd://a:0":                        `"0" is not a port`,
		"etcd://a:65536":                    `"65536" is not a port`,
		"etcd://a?cacert=x":                 "use etcds",
		"etcds://a?ca=x":                    `option "ca" is unknown; there are cacert, cert, key, servername`,
		"etcds://a?cert=x":                  "cert and key go together",
		"etcds://a?key=x":                   "cert and key go together",
		"etcds://a?cert=%zz":                "invalid URL escape",
		"etcds://a?cacert=/none.pem":        "cacert: open /none.pem",
		"etcds://a?cacert=" + junk:          "holds no PEM certificate",
		"etcds://a?cert=/c&key=/none":       "cert and key: open /c",
		"file://":                           "there are three",
		"file://leases":                     "there are three",
		"file:///a,b":                       `path "b" is not absolute`,
		"file:///a,/a/":                     `path "/a" is given twice`,
		"file:///a?term=3s":                 "tenure lease init",
		"file:///a%zz":                      "invalid URL escape",
		"flease://a:1,b:1":                  "which of them is this process? write flease://a:7000@",
		"flease:///sock?t_max=3s":           "the peer that listens there has them",
		"flease://a:1@":                     `peer 1 is at "": write host:port`,
		"flease://a:1@a:1,a:1":              "a:1 is listed twice",
		"flease://a:1@a":                    `peer 1 is at "a": write host:port`,
		"flease://a:1@1=a:1,b:1":            "an index with every peer or with none",
		"flease://a:1@1=a:1,1=b:1":          "two peers with index 1, a:1 and b:1",
		"flease://a:1@0=a:1":                "give it one from 1 to 1023",
		"flease://c:1@a:1,b:1":              "c:1, is not among the members",
		"flease://a:1@/none":                "open /none",
		"flease://self@192.0.2.1:1":         "0 of the addresses are this machine's",
		"flease://a:1@a:1?ttl=3s":           `option "ttl" is unknown; there are cluster, t_max`,
		"flease://a:1@a:1?t_max=3":          "t_max=3 is no duration: write for instance t_max=500ms",
		"flease://a:1@a:1?cell=x":           "cell=x",
		"flease://a:1@a:1?cell=0":           "cell=0",
		"flease://a:1@a:1?cell=9223372036854775808":                                 "cell=9223372036854775808: write how many",
		"flease://a:1@a:1?t_max=9999999h":                                           "t_max=9999999h is no duration",
		"flease://a:1@a:1?cacert=/none.pem&cert=/c&key=/k":                          "cacert: open /none.pem",
		"flease://a:1@a:1?t_max=-3s":                                                "t_max=-3s is no duration",
		"flease://a:1@a:1?round=0s":                                                 "round=0s is no duration",
		"flease://a:1@a:1?epsilon=x":                                                "epsilon=x is no duration",
		"flease://self@127.0.0.1:3,127.0.0.1:1,127.0.0.1:5,127.0.0.1:2,127.0.0.1:4": "5 of the addresses are this machine's (127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3, 127.0.0.1:4, 127.0.0.1:5)",
		"flease://a:1@a:1?servername=x":                                             "cacert is missing",
		"flease:///a%zz":                                                            "invalid URL escape",
		"flease://a:1@a:1?cell=%zz":                                                 "invalid URL escape",
		"flease://a:1@/a%zz":                                                        "invalid URL escape",
		"flease://a:1@a:1?clock=ntp":                                                "write kernel",
		"flease://a:1@a:1?cert=x":                                                   "cacert is missing: peers authenticate each other",
		"flease://a:1@a:1?t_max=1s&epsilon=300ms":                                   "t_max = 1s is too short for ε = 300ms and a round timeout of 25ms: make it more than 1.3s",
		"redis://":             "an address is empty",
		"redis://a,a:6379":     `server "a:6379" is given twice`,
		"redis://a/x":          `"x" is not the number of a database`,
		"redis://secret@a":     "write user:password@",
		"redis://@a":           "write user:password@",
		"redis://u%zz:p@a":     "a user or password has a % that begins no escape",
		"redis://a?cacert=x":   "use rediss",
		"redis://a/-1":         `"-1" is not the number of a database`,
		"rediss://a?db=1":      `option "db" is unknown; there are cacert, cert, key, servername`,
		"redis://a?prefix=%zz": "invalid URL escape",
		"etcd://a?cert=%zz":    "invalid URL escape",
		"file:///a#b":          "has no options",
	} {
		l, err := Open(t.Context(), url)
		if err == nil || l != nil {
			t.Fatalf("%q: got %v, %v", url, l, err)
		}
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, want %v with %q", url, err, ErrURL, want)
		}
	}
}

// TestAPeersErrorIsKept: a URL of which the engine itself finds out that no peer can work with it has the engine's
// error, too.
func TestAPeersErrorIsKept(t *testing.T) {
	const url = "flease://a:1@a:1?t_max=1s&epsilon=300ms"
	if _, err := Open(t.Context(), url); !errors.Is(err, ErrURL) || !errors.Is(err, flease.ErrConfig) || !strings.Contains(err.Error(), url) {
		t.Errorf("%q: got %v, want that it wraps %q and %q", url, err, ErrURL, flease.ErrConfig)
	}
}

func TestNobodyAnswers(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for url, want := range map[string]string{
		"etcd://127.0.0.1:1":                  "cannot reach 127.0.0.1:1: dial tcp",
		"redis://127.0.0.1:1":                 "127.0.0.1:1",
		"file://" + none:                      none,
		"flease://" + none:                    "no peer listens at " + none,
		"flease://a:1@a:1?listen=192.0.2.1:1": "192.0.2.1:1",
	} {
		ctx := t.Context()
		if url == "flease://"+none { // which may be about to appear
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			ctx = short
		}
		l, err := Open(ctx, url)
		if err == nil || l != nil { // not even a Leaser that is nil within
			t.Errorf("%s: got %v, %v", url, l, err)
			continue
		}
		if errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, want it to contain %q, and not %q", url, err, want, ErrURL)
		}
	}
}

// TestOpen: a URL opens the engine that its scheme names.
func TestOpen(t *testing.T) {
	open := func(url string) tenure.Leaser {
		l, err := Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	dir := t.TempDir()
	if _, err := file.Init(t.Context(), []string{dir}, file.Spec{SingleHost: true}); err != nil {
		t.Fatal(err)
	}
	if l, ok := open("file://" + dir).(*file.Leaser); !ok || l.Made() {
		t.Errorf("a file URL opens %T", l)
	}
	peer, ok := open("flease://a:1@a:1?listen=127.0.0.1:0").(*flease.Leaser)
	if !ok {
		t.Fatal("a flease URL with members opens no peer")
	}
	socket := filepath.Join(t.TempDir(), "peer")
	listener, err := flease.ListenSocket(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- peer.Peer().Serve(listener) }()
	t.Cleanup(func() { listener.Close(); <-served })
	if l, ok := open("flease://" + socket).(*flease.Client); !ok {
		t.Errorf("a flease URL with a path opens %T", l)
	}
}
