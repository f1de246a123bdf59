package ctl

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/compat/server"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts anew, from etcd")

func TestEtcdctl(t *testing.T) { compare(t, "testdata/script.txt") }

// Users and roles: made, granted, put in force, refused, changed and taken back, as by an operator with etcdctl.
func TestUsers(t *testing.T) { compare(t, "testdata/users.txt") }

func compare(t *testing.T, transcript string) {
	want, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		got := run(t, server.Etcd, string(want))
		if err := os.WriteFile(transcript, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		want = []byte(got)
	}
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			got := run(t, kind, string(want))
			gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			command := ""
			for i := range max(len(gotLines), len(wantLines)) {
				g, w := line(gotLines, i), line(wantLines, i)
				if strings.HasPrefix(g, "$ ") {
					command = g
				}
				if g != w {
					t.Fatalf("line %d, of %q:\ngot  %q\nwant %q\nall:\n%s", i+1, command, g, w, got)
				}
			}
		})
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

func run(t *testing.T, kind server.Kind, script string) string {
	t.Helper()
	etcdctl, err := server.Binary("etcdctl")
	if err != nil {
		t.Fatal(err)
	}
	c, err := server.Start(t.Context(), server.Config{Kind: kind, Dir: t.TempDir(), Args: []string{"--bcrypt-cost=4"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	s := Script{Etcdctl: etcdctl, Endpoint: c.Endpoints()[0]}
	got, err := s.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
