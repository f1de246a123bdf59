package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// shape is a JSON text with its keys in order, and kinds instead of values: what a program relies on. Of a list it
// has the first.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+":"+shape(v[key]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	case string:
		return "s"
	case float64:
		return "n"
	case bool:
		return "b"
	}
	return fmt.Sprint(v)
}

// dropChance takes away what depends on whether the member holds a read lease just then.
func dropChance(v any, ofKey bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			dropChance(one, ofKey)
		}
	case map[string]any:
		for _, key := range []string{"holds", "left_ms", "boot", "has", "grantors", "held_up"} {
			delete(v, key)
		}
		if _, list := v["holders"].([]any); list && ofKey {
			v["holders"] = "some"
		}
		for _, one := range v {
			dropChance(one, ofKey)
		}
	}
}

// JSON is printed by package cli only, which has no list be null.
func TestJSONIsPrintedInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := map[string]bool{ // what is no output with -o json, or has no lists
		"broadcast_socket.go": true, "regroup.go": true, "events.go": true,
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && !elsewhere[file] && regexp.MustCompile(`json\.(Marshal|NewEncoder)`).Match(text) {
			t.Errorf("%s prints JSON by itself", file)
		}
	}
}

// The JSON of each command has these names and kinds, which programs rely on.
func TestJSONOfEachCommand(t *testing.T) {
	server := "etcd://" + startServer(t)
	client, err := serverAt(t.Context(), place{url: server})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record, err := json.Marshal(tenure.Run{Started: time.Now().Add(-time.Hour), Ended: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "job.record", string(record)); err != nil {
		t.Fatal(err)
	}
	dir := "file://" + t.TempDir()
	const (
		run    = "{ended:s holder:s started:s token:n}"
		member = "{applied:n client_urls:[s] id:s leader:b learner:b name:s peer_urls:[s] reachable:b}"
		reader = "{id:s leader:b learner:b name:s reads:{forwarded:n local:n rounds:n} ttl_ms:n urls:[s]}"
		reads  = "{committed:n leader:s members:[" + reader + "] order:s policy:s released:n term:n}"
		store  = "{store:s took_ms:n}"
		asked  = "{bytes:n id:s index:n lag:n leader:b learner:b name:s revision:n urls:[s] version:s}"
	)
	for _, tt := range []struct{ args, want string }{
		{"version", "{api:s commit:s go:s system:s tenure:s}"},
		{"lease init --single-host --delay 20ms --at " + dir, "{at:s delay_measured:b delay_ms:n drift_ppm:n free_lease_ms:n set:s stores:n takeover_ms:n ttl_ms:n}"},
		{"lease show n --at " + dir, "{holders:[] name:s stores:[" + store + "] waiting:n}"},
		{"lease list --at " + dir, "[]"},
		{"lease break n --at " + dir, "{broken:[] name:s}"},
		{"agree n v --at " + dir, "{name:s value:s}"},
		{"lease show job --at " + server, "{holders:[] last_run:" + run + " name:s waiting:n}"},
		{"member list --at " + server, "{cluster:s leader:s members:[" + member + "]}"},
		{"read-lease set all --at " + server, "{policy:s previous:s}"},
		{"read-lease --at " + server, reads},
		{"read-lease holders k --at " + server, "{holders:s key:s leader:s order:s policy:s}"},
		{"status --at " + server, "{cluster:s jobs:[{last_run:" + run + " name:s}] leader:s leases:n members:[" + asked + "] read_leases:" + reads + " term:n}"},
		{"lease reset job --at " + server, "{forgotten:" + run + " name:s}"},
		{"lease reset job --at " + server, "{forgotten:<nil> name:s}"},
		{"member update one --peer-urls http://127.0.0.1:1 --at " + server, "{change:s id:s name:s}"},
		{"member move-leader one --at " + server, "{change:s id:s name:s}"},
	} {
		out, err := command(t, append(strings.Fields(tt.args), "-o", "json")...)
		var got any
		failed := errors.Join(err, json.Unmarshal([]byte(out), &got))
		dropChance(got, strings.Contains(tt.args, "holders"))
		if failed != nil || shape(got) != tt.want {
			t.Errorf("tenure %s prints %s, %v; want %s", tt.args, shape(got), failed, tt.want)
		}
	}
}
