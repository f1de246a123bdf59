package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A case may cost a quarter more than is recorded, and no more.
func TestJudge(t *testing.T) {
	names, allowed := []string{"get", "put"}, map[string]float64{"get": 2, "put": 4}
	for _, tt := range []struct {
		get, put float64
		bad      string
	}{{2, 4, ""}, {2.5, 5, ""}, {2.51, 4, "[get]"}, {1, 5.1, "[put]"}, {9, 9, "[get put]"}} {
		var w bytes.Buffer
		err := judge(&w, names, allowed, map[string]float64{"get": tt.get, "put": tt.put})
		if tt.bad == "" && err != nil || tt.bad != "" && (!errors.Is(err, errSlower) || !strings.Contains(err.Error(), tt.bad)) {
			t.Errorf("a get of %v and a put of %v echoes: %v, want %q refused", tt.get, tt.put, err, tt.bad)
		}
		if lines := strings.Count(w.String(), "echoes, recorded"); lines != 2 {
			t.Errorf("it prints\n%s, want a line for each case", w.String())
		}
	}
}

// A guard measures a member beside an echo, and fails by its file.
func TestGuard(t *testing.T) {
	for text, want := range map[string]error{`{"get-leader": 1e9, "put": 1e9}`: nil, `{"get-leader": -1}`: errSlower} {
		path := filepath.Join(t.TempDir(), "echoes.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		opt := options{clients: 4, duration: 60 * time.Millisecond, leases: 1}
		if err := guard(t.Context(), opt, path, &w); !errors.Is(err, want) {
			t.Errorf("with %s it returns %v, want %v:\n%s", text, err, want, w.String())
		}
	}
	if err := guard(t.Context(), options{}, filepath.Join(t.TempDir(), "none"), &bytes.Buffer{}); !os.IsNotExist(err) {
		t.Errorf("without a file it returns %v", err)
	}
}
