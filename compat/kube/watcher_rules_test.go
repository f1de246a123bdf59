package kube

import (
	"strings"
	"testing"
)

// The judge of watches finds what a server may do wrong.
func TestWatcherJudges(t *testing.T) {
	change := func(kind, name, version, value string) event {
		o := configMap(name, value)
		o.Metadata.ResourceVersion = version
		return event{kind, o}
	}
	good := []event{change("ADDED", "x-1", "11", "1"), change("ADDED", "x-2", "12", "1"), change("MODIFIED", "x-1", "13", "2")}
	for name, tt := range map[string]struct {
		events []event
		wrong  string
	}{
		"good":       {good, ""},
		"a gap":      {append(good[:3:3], change("MODIFIED", "x-1", "15", "4")), "want 3"},
		"twice":      {append(good[:3:3], good[2]), "behind 13"},
		"goes back":  {append(good[:3:3], change("MODIFIED", "x-2", "12", "2")), "behind 13"},
		"added late": {append(good[:3:3], change("ADDED", "x-1", "14", "3")), "ADDED with value 3"},
		"an error":   {append(good[:3:3], event{Type: "ERROR"}), "ERROR"},
	} {
		w := &watcher{version: 10, values: map[string]string{}}
		for _, e := range tt.events {
			w.see(e)
		}
		if said := strings.Join(w.wrong, "; "); !strings.Contains(said, tt.wrong) || (tt.wrong == "") != (said == "") {
			t.Errorf("%s: it says %q, want %q", name, said, tt.wrong)
		}
	}
}
