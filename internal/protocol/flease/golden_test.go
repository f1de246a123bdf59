package flease

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/golden"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestGolden plays testdata/golden/*.txt among three peers: each line that begins with a
// word is a command, what it led to is indented below. To write them anew, after having
// understood why they change:
//
//	go test ./internal/protocol/flease -run TestGolden -rewrite
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g := course{cluster: newCluster(t, 3, nil)}
			g.start0 = g.peers[1].c
			for line := range strings.Lines(string(want)) {
				if !strings.HasPrefix(line, " ") {
					g.out.WriteString(line)
					g.command(strings.Fields(line))
				}
			}
			golden.Lines(t, file, g.out.String())
		})
	}
}

type course struct {
	*cluster
	out    strings.Builder
	start0 Time
	cutOff machine.NodeID
}

func (g *course) command(f []string) {
	if len(f) == 0 || f[0] == "#" {
		return
	}
	var id machine.NodeID
	var claim uint64
	if len(f) > 1 {
		_, _ = fmt.Sscan(f[1], &id)
	}
	if len(f) > 2 {
		_, _ = fmt.Sscan(f[2], &claim)
	}
	g.cluster.out = map[machine.NodeID][]Report{}
	// Everything that is sent is shown when it arrives.
	g.cut = func(env machine.Envelope) bool {
		lost := ""
		if gone := g.peers[env.To] == nil || env.From == g.cutOff || env.To == g.cutOff; gone {
			lost = " lost"
		}
		for _, o := range env.Body.(*Batch).Ops {
			fmt.Fprintf(&g.out, "    %d>%d %s%s\n", env.From, env.To, g.show(o), lost)
		}
		return lost != ""
	}
	switch f[0] {
	case "acquire":
		g.do(id, Acquire{ID: claim, Name: "r", Holder: fmt.Sprint("h", id), Slots: map[bool]int{true: Shared, false: 1}[f[len(f)-1] == "shared"], Try: f[len(f)-1] == "try"})
	case "release":
		g.do(id, Release{ID: claim})
	case "observe":
		g.do(id, Observe{ID: claim, Name: "r"})
	case "cut":
		g.cutOff = id
	case "heal":
		g.cutOff = 0
	case "crash":
		delete(g.peers, id)
	case "pass":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			g.t.Fatal(err)
		}
		g.pass(d)
	default:
		g.t.Fatalf("no such command: %v", f)
	}
	for _, id := range g.ids() {
		for _, out := range g.cluster.out[id] {
			fmt.Fprintf(&g.out, "  %d: %s\n", id, g.outcome(out))
		}
	}
}

var kindNames = [...]string{"", "READ", "WRITE", "ackREAD", "nackREAD", "ackWRITE", "nackWRITE", "SKEWED", "PEEK", "peeked", "LEARN", "QUIT", "WRONGVIEW"}

// ballot shows times since the script's beginning.
func (g *course) ballot(k Ballot) string {
	if k == 0 {
		return "0"
	}
	return fmt.Sprintf("%d.%d/%d", k.Time()-g.start0, k>>memberBits&(1<<seqBits-1), k.Member())
}

func (g *course) show(o Op) string {
	s := kindNames[o.Kind] + " " + g.ballot(o.Ballot)
	switch o.Kind {
	case NackRead, NackWrite:
		s += " for " + g.ballot(o.Written)
	case AckRead, Peeked, Learn:
		s += " from " + g.ballot(o.Written) + g.value(o.Value)
	case Write:
		s += g.value(o.Value)
	}
	return s
}

func (g *course) value(v Value) (s string) {
	for _, h := range v {
		s += fmt.Sprintf(" (%d until %d", h.Owner, h.Until-g.start0)
		if h.Released {
			s += " released"
		}
		s += ")"
	}
	if v == nil {
		return " ⊥"
	}
	return s
}

func (g *course) outcome(out Report) string {
	switch out := out.(type) {
	case Acquired:
		return fmt.Sprintf("acquired %d, token %s, until %d", out.ID, g.ballot(Ballot(out.Token)), TimeOf(out.Until)-g.start0)
	case Renewed:
		return fmt.Sprintf("renewed %d, until %d", out.ID, TimeOf(out.Until)-g.start0)
	case Lost:
		return fmt.Sprintf("lost %d: %s", out.ID, out.Why)
	case Waits:
		return fmt.Sprintf("waits %d:%s, error %v", out.ID, g.value(out.State.Holdings), out.Err)
	case Refused:
		return fmt.Sprintf("refused %d:%s, error %v", out.ID, g.value(out.State.Holdings), out.Err)
	case Observed:
		return fmt.Sprintf("observed %d:%s, %d wait, stable %v", out.ID, g.value(out.State.Holdings), out.State.Waiting, out.State.Stable)
	case Released:
		return fmt.Sprintf("released %d, confirmed %v", out.ID, out.Confirmed)
	}
	return fmt.Sprintf("%T", out)
}
