package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

func TestSimJSON(t *testing.T) {
	var hashes []string
	for range 2 {
		out, _, err := labOut("sim", "replica", "--seed", "3", "--worlds", "2", "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var r simReport
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Protocol != "replica" || r.Seed != 3 || r.Worlds != 2 || r.Failures == nil || len(r.Failures) > 0 || r.Counters["operations"] == 0 || r.Elapsed <= 0 {
			t.Errorf("got %s", out)
		}
		if !regexp.MustCompile(`"trace_hash": "[0-9a-f]{16}"\s*}\s*$`).MatchString(out) {
			t.Errorf("trace_hash is not last: %s", out)
		}
		hashes = append(hashes, r.Hash)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("two runs of the same seeds: hashes %q", hashes)
	}
}

func TestSimListsProtocols(t *testing.T) {
	out, _, err := labOut("sim")
	if err != nil || !strings.Contains(out, "replica ") {
		t.Errorf("got %q, %v", out, err)
	}
	completed, _, err := labOut("__complete", "sim", "rep")
	if err != nil || !strings.Contains(completed, "replica\t") {
		t.Errorf("completion of rep: got %q, %v", completed, err)
	}
	for _, p := range protocols() {
		if p.Name == "" || p.About == "" || p.Play == nil {
			t.Errorf("protocol %q lacks something", p.Name)
		}
	}
}

func TestSimRefuses(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"sim nonsense", "`tenure-lab sim` lists them"},
		{"sim replica --worlds 0", "--worlds 0: want at least 1"},
		{"sim replica --failures -1", "cannot be negative"},
		{"sim replica --seed -1", "want a whole number"},
		{"sim replica disklease", "is too much"},
	} {
		if _, _, err := labOut(strings.Fields(tc.line)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.line, err, tc.want)
		}
	}
}

// ofThree violates something in every third world.
var ofThree = sim.Protocol{Name: "ofthree", Play: func(w *sim.World) error {
	w.Run(time.Second)
	w.Note("a note")
	w.Count("worlds", 1)
	if w.Seed%3 == 0 {
		w.Note("a clue")
		return errors.New("three divides it")
	}
	return nil
}}

func TestSimFailure(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tc := range []struct {
		name     string
		s        simulation
		failures int
		svg      string
	}{
		{"the first", simulation{seed: 1, worlds: 10, failures: 1}, 1, "ofthree-3.svg"},
		{"all", simulation{seed: 4, worlds: 10, svg: "here.svg"}, 3, "here.svg"},
		{"alone", simulation{seed: 9, worlds: 1, failures: 1}, 1, "ofthree-9.svg"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.s.protocol, tc.s.notes, tc.s.out = ofThree, 10, "table"
			cmd := &cobra.Command{}
			var out, errs bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			err := tc.s.many(cmd)
			var exit cli.ExitError
			if !errors.As(err, &exit) || exit.Code != cli.ExitFailure {
				t.Fatalf("got %v, want exit code %d", err, cli.ExitFailure)
			}
			if got := strings.Count(out.String(), "three divides it"); got != tc.failures {
				t.Errorf("%d failures are listed, want %d:\n%s", got, tc.failures, out.String())
			}
			for _, want := range []string{"a clue", "picture: ./" + tc.svg, "again:   tenure-lab sim ofthree --seed "} {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, errs.String())
				}
			}
			wellFormed(t, tc.svg)
		})
	}
}

func TestSimDrawsAWorldWithoutViolation(t *testing.T) {
	t.Chdir(t.TempDir())
	if out, _, err := labOut("sim", "replica", "--seed", "2", "--svg", "world.svg"); err != nil || !strings.Contains(out, "nothing was violated") {
		t.Errorf("got %s, %v", out, err)
	}
	wellFormed(t, "world.svg")
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := xml.NewDecoder(f); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}
