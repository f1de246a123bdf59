package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A member does not begin with nothing where the data of an etcd are, also in the directory that etcd takes by
// default; with data of its own, or in another directory, it does begin.
func TestDataOfAnEtcd(t *testing.T) {
	for of, tt := range map[string]struct {
		there   []string
		args    []string
		refused bool
	}{
		"an etcd's data":                        {[]string{"d/member/snap"}, []string{"--data-dir", "d"}, true},
		"an etcd's log alone":                   {[]string{"d/member/wal"}, []string{"--data-dir", "d"}, true},
		"an etcd's default directory":           {[]string{"n.etcd/member/snap"}, []string{"--name", "n"}, true},
		"the same, and another is named":        {[]string{"n.etcd/member/snap"}, []string{"--name", "n", "--data-dir", "d"}, false},
		"the same, and there are data here":     {[]string{"n.etcd/member/snap", "n.tenure/wal"}, []string{"--name", "n"}, false},
		"an etcd's data beside those of Tenure": {[]string{"d/member/snap", "d/wal"}, []string{"--data-dir", "d"}, false},
		"an empty directory":                    {[]string{"d"}, []string{"--data-dir", "d"}, false},
		"a directory of something else":         {[]string{"d/member"}, []string{"--data-dir", "d"}, false},
	} {
		t.Chdir(t.TempDir())
		for _, dir := range tt.there {
			if err := os.MkdirAll(filepath.FromSlash(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		o, err := parse(t, append(tt.args, "--initial-cluster-state", "odd"), nil) // which is refused later
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.config(slog.New(slog.DiscardHandler), nil)
		if refused := strings.Contains(err.Error(), "has the data of an etcd") && strings.Contains(err.Error(), "tenure snapshot restore"); refused != tt.refused {
			t.Errorf("%s: a member that is to begin there ends with %v; it should be told the way to move: %v", of, err, tt.refused)
		}
	}
}
