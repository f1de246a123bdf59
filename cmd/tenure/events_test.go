package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
	"time"
)

// A line of --events has all that is known, and when it was written.
func TestEventsTellAll(t *testing.T) {
	lease := &ending{at: time.Now().Add(time.Hour).Truncate(time.Second).UTC()}
	code := 3
	for name, tt := range map[string]struct {
		print func(*events)
		want  map[string]any
	}{
		"of a lease": {
			func(e *events) { e.lease("acquired", lease) },
			map[string]any{"event": "acquired", "name": "fading", "holder": "test", "token": 1.0, "deadline": lease.at.Format(time.RFC3339)},
		},
		"with a reason": {
			func(e *events) { e.why("lost", lease, "no renewal") },
			map[string]any{"event": "lost", "name": "fading", "token": 1.0, "why": "no renewal"},
		},
		"of a command": {
			func(e *events) { e.print(event{Event: "exited", Name: "n", Token: 7, Code: &code, Why: "stopped"}) },
			map[string]any{"event": "exited", "name": "n", "token": 7.0, "code": 3.0, "why": "stopped"},
		},
	} {
		var out bytes.Buffer
		e := newEvents(&out)
		before := time.Now()
		tt.print(&e)
		e.close()
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		text, _ := got["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err != nil || at.Before(before.Truncate(0)) || at.After(time.Now()) {
			t.Errorf("%s: the time is %q, %v, want when it was told", name, text, err)
		}
		if delete(got, "time"); !maps.Equal(got, tt.want) {
			t.Errorf("%s: the line says %v, want %v", name, got, tt.want)
		}
	}
}

// Lines are written in the order of the events.
func TestEventsHaveAnOrder(t *testing.T) {
	var out bytes.Buffer
	e := newEvents(&out)
	for _, what := range []string{"waiting", "acquired", "released"} {
		e.print(event{Event: what})
	}
	e.close()
	for i, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var got event
		if err := json.Unmarshal(line, &got); err != nil || got.Event != []string{"waiting", "acquired", "released"}[i] {
			t.Errorf("line %d is %s, %v", i, line, err)
		}
	}
}
