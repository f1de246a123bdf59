package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Commands about servers take a server's TENURE_AT alone: a tenure around them may be somewhere else.
func TestServersOfTheEnvironment(t *testing.T) {
	for at, want := range map[string]string{
		"": atServer, "local": atServer, "file:///leases": atServer, "redis://a": atServer, "flease:///s": atServer,
		"etcd://a,b": "etcd://a,b", "etcds://a?cacert=c": "etcds://a?cacert=c",
	} {
		t.Setenv("TENURE_AT", at)
		var got place
		serverFlag(pflag.NewFlagSet("", pflag.ContinueOnError), &got)
		if got.url != want {
			t.Errorf("with TENURE_AT=%s the server is %q, want %q", at, got.url, want)
		}
	}
}

// That leases are this machine's is told when their place is made, and after that on a terminal only.
// Without a place there is nothing to tell.
func TestThePlaceOfLeasesIsToldOnce(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	settled := func(at string) string {
		var said strings.Builder
		there := place{url: at}
		settle(&there, &said)
		if there.url == "" {
			t.Error("there is no place for leases")
		}
		return said.String()
	}
	if said := settled(atLocal); said != "" {
		t.Errorf("a user that has said where is told %q", said)
	}
	if said := settled(""); !strings.Contains(said, localDir()+" and exclude only") {
		t.Errorf("before the place is made the user is told %q", said)
	}
	if err := os.MkdirAll(localDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if said := settled(""); said != "" {
		t.Errorf("once the place is made a cron job is told %q, each night", said)
	}
	t.Setenv("XDG_STATE_HOME", "")
	if said := settled(""); said != "" {
		t.Errorf("without a place the user is told %q", said)
	}
	_, err := local()
	wantRefused(t, err, "set one, or give --at")
}
