package asynclease_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

var rewrite = flag.Bool("rewrite-scripts", false, "rewrite the golden file with what happens")

func member(t *testing.T, id machine.NodeID) *asynclease.Machine {
	t.Helper()
	m, err := asynclease.New(asynclease.Config{ID: id, Members: []machine.NodeID{1, 2, 3}, Life: 1, Retry: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFigure1 plays testdata/figure1.txt: the text behind "=" is the expected result.
func TestFigure1(t *testing.T) {
	const path = "testdata/figure1.txt"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "\nrun ")
	out := head
	for _, run := range strings.Split(rest, "\nrun ") {
		got := play(t, run)
		if strings.TrimSpace(got) != strings.TrimSpace(run) {
			t.Errorf("got\n%s\nwant\n%s", got, run)
		}
		out += "\nrun " + got
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play plays a run and returns it with what came out.
func play(t *testing.T, run string) string {
	s := stage.New[asynclease.Input, asynclease.Verdict](t)
	var said []string
	s.Outcome = func(id machine.NodeID, v asynclease.Verdict) {
		said = append(said, fmt.Sprintf("= member %d: lease(%d,%d) returns %v", id, v.First, v.Last, v.Granted))
	}
	for id := range machine.NodeID(3) {
		s.Start(id+1, member(t, id+1))
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(run), "\n") {
		if strings.HasPrefix(line, "=") {
			continue
		}
		lines = append(lines, line)
		var a, b machine.NodeID
		var in asynclease.Interval
		if n, _ := fmt.Sscanf(line, "member %d: lease(%d,%d)", &a, &in.First, &in.Last); n == 3 {
			s.Step(a, asynclease.Ask{ID: uint64(len(lines)), Interval: in})
		} else if n, _ := fmt.Sscanf(line, "from %d to %d arrives", &a, &b); n == 2 {
			s.Pass(stage.From(a), stage.To(b))
		} else if line == "all arrives" {
			s.Settle()
		} else if len(lines) > 1 {
			t.Fatalf("no such line in a run: %q", line)
		}
	}
	return strings.Join(append(lines, said...), "\n") + "\n"
}
