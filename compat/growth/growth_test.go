package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// Each axis has a cost at each size and a picture, small.
func TestEachAxis(t *testing.T) {
	dir := t.TempDir()
	o := options{kind: server.Tenure, top: 1000, time: 400 * time.Millisecond, dir: dir}
	if testing.Short() {
		o.only = []string{"keys", "watchers"}
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), o, &out, &progress); err != nil {
		t.Fatal(err)
	}
	var all map[string][]point
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, a := range axes {
		if len(o.only) > 0 && all[a.name] == nil {
			continue
		}
		seen := map[int]bool{}
		for _, p := range all[a.name] {
			seen[p.Size] = true
			if p.Micros <= 0 && p.Bytes <= 0 {
				t.Errorf("%s: %+v is no cost", a.name, p)
			}
		}
		for _, n := range a.sizes(o) {
			if !seen[n] {
				t.Errorf("%s: nothing is measured at %d", a.name, n)
			}
		}
		svg, err := os.ReadFile(filepath.Join(dir, "growth-"+a.name+".svg"))
		if err != nil || !strings.Contains(string(svg), a.label) {
			t.Errorf("%s: the picture is %q, %v", a.name, svg, err)
		}
	}
}

func TestUnknownAxis(t *testing.T) {
	if err := run(t.Context(), options{only: []string{"money"}}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "-only money") {
		t.Errorf("the error is %v, want it to name what does not grow", err)
	}
}
