package sim

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// play is a small history with everything that a timeline can show: a holder that
// is paused beyond its deadline, another that trusts it until then and a third
// that does not wait.
func play(w *World) error {
	for _, lane := range []string{"a", "b", "<c> & co"} {
		w.timeline.lane(lane)
	}
	ms := time.Millisecond
	op := func(kind Kind, lane string, d time.Duration, text string) {
		m := w.Begin(kind, lane, "%s", text)
		w.Run(d)
		m.End()
	}
	op(Reads, "a", 2*ms, "sees nobody")
	op(Writes, "a", 3*ms, "writes 1.a")
	held := w.Mark(Holds, "a", "token 1").Of("x")
	held.Until(w.Now() + 60*ms)
	w.Run(20 * ms)
	paused := w.Begin(Fault, "a", "pause")
	op(Reads, "b", 2*ms, "sees 1.a")
	w.Mark(Fault, "b", "the clock steps")
	cut := w.Begin(Fault, "network", "cut")
	cut.Note(" %d>%d", 1, 2)
	w.Begin(Writes, "b", "gets stuck") // and is never answered
	w.Run(10 * ms)
	op(Writes, "<c> & co", 2*ms, "writes 2.c")
	w.Mark(Holds, "<c> & co", "token 2").Of("x").Until(w.Now() + 40*ms)
	w.Mark(Violation, "<c> & co", "x is held by a and <c> & co")
	shared := w.Begin(Shares, "b", "a right of another name").Of("y")
	w.Run(5 * ms)
	w.Mark(Remark, "b", "goes on")
	w.Mark(Remark, "", "of the world")
	w.Run(30 * ms)
	shared.End()
	shared.End()
	paused.End()
	return errors.New("x is held by two")
}

func timeline(t *testing.T) *Timeline {
	t.Helper()
	w, err := Protocol{Name: "play", Play: play}.Replay(7)
	if err == nil {
		t.Fatal("got no violation")
	}
	return w.Timeline()
}

func TestTimelineGolden(t *testing.T) {
	tl := timeline(t)
	for path, draw := range map[string]func(io.Writer) error{"testdata/timeline.svg": tl.SVG, "testdata/timeline.txt": tl.text} {
		var b strings.Builder
		if err := draw(&b); err != nil {
			t.Fatal(err)
		}
		if b.String() != golden.Kept(t, path, b.String()) {
			t.Errorf("%s differs; look at what changed, then run go test ./internal/lab/sim -run Golden -rewrite\n%s", path, b.String())
		}
	}
}

// elements are a picture's shapes by class, and its tooltips.
func elements(t *testing.T, svg string) (classes map[string]int, tips []string) {
	t.Helper()
	classes = map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	inTitle := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return classes, tips
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inTitle = token.Name.Local == "title"
			for _, a := range token.Attr {
				if a.Name.Local == "class" {
					classes[a.Value]++
				}
				if strings.Contains(a.Value, "%!") || strings.Contains(a.Value, "NaN") {
					t.Errorf("<%s %s=%q>", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inTitle {
				tips = append(tips, string(token))
			}
		case xml.EndElement:
			inTitle = false
		}
	}
}

// TestTimelineShows counts shapes, without those of the legend, one a class.
func TestTimelineShows(t *testing.T) {
	var b strings.Builder
	if err := timeline(t).SVG(&b); err != nil {
		t.Fatal(err)
	}
	classes, tips := elements(t, b.String())
	for class, want := range map[string]int{
		"holds": 2, "shares": 1, "clash": 2, "column": 1, "writes": 3, "reads": 2,
		"fault": 2, "once": 1, "remark": 2, "violation": 1,
	} {
		legend := 1
		if class == "column" || class == "once" {
			legend = 0
		}
		if got := classes[class] - legend; got != want {
			t.Errorf("%s: got %d shapes, want %d", class, got, want)
		}
	}
	for _, want := range []string{
		"a holds x token 1, 0.005000 s +60ms",
		"a and <c> & co at once for 26ms: x",
		"network fault cut 1>2, 0.027000 s +47ms",
	} {
		if !strings.Contains(strings.Join(tips, "\n"), want) {
			t.Errorf("no tooltip says %q; they say\n%s", want, strings.Join(tips, "\n"))
		}
	}
}

// A timeline may be empty, or of any length: it stays a picture that can be drawn.
func TestTimelineExtremes(t *testing.T) {
	for _, n := range []int{0, 1, 10 * maxMarks} {
		w, err := Protocol{Name: "p", Play: func(w *World) error {
			first := w.Begin(Fault, "lane 0", "all the time")
			for i := range n {
				w.Mark(Writes, fmt.Sprintf("lane %d", i%3), "%d", i)
				w.Run(time.Hour)
			}
			first.End()
			return nil
		}}.Replay(1)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := w.Timeline().SVG(&b); err != nil {
			t.Fatal(err)
		}
		classes, _ := elements(t, b.String())
		if got, want := classes["writes"]-1, min(n, maxMarks); got != want {
			t.Errorf("%d marks: got %d in the picture, want %d", n, got, want)
		}
		if n > 0 && classes["fault"]-1 != 1 {
			t.Errorf("%d marks: the fault that lasts is not in the picture", n)
		}
	}
}

// Of holders at one time only pairs with an exclusive holder clash.
func TestClashes(t *testing.T) {
	mark := func(kind Kind, from, to int, right string) Mark {
		return Mark{Kind: kind, From: time.Duration(from), To: time.Duration(to), Right: right}
	}
	for name, tc := range map[string]struct {
		marks []Mark
		want  string
	}{
		"apart":             {[]Mark{mark(Holds, 0, 5, "x"), mark(Holds, 5, 9, "x")}, "[]"},
		"two":               {[]Mark{mark(Holds, 0, 5, "x"), mark(Holds, 4, 9, "x")}, "[{0 1 4 5}]"},
		"one within":        {[]Mark{mark(Holds, 0, 9, "x"), mark(Holds, 4, 5, "x")}, "[{0 1 4 5}]"},
		"other rights":      {[]Mark{mark(Holds, 0, 9, "x"), mark(Holds, 4, 5, "y")}, "[]"},
		"sharers":           {[]Mark{mark(Shares, 0, 9, "x"), mark(Shares, 4, 5, "x")}, "[]"},
		"sharer and holder": {[]Mark{mark(Shares, 0, 9, "x"), mark(Holds, 4, 5, "x")}, "[{0 1 4 5}]"},
		"a moment":          {[]Mark{mark(Holds, 0, 9, "x"), mark(Holds, 4, 4, "x")}, "[]"},
		"behind a gap":      {[]Mark{mark(Holds, 0, 9, "x"), mark(Writes, 3, 4, ""), mark(Holds, 8, 12, "x"), mark(Holds, 10, 11, "x")}, "[{0 2 8 9} {2 3 10 11}]"},
	} {
		if got := fmt.Sprint(clashes(tc.marks)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestLanesInOrder(t *testing.T) {
	got := inOrder([]string{"host 10", "disk", "host 9", "disk b", "client 2", "host 1", "client 1"})
	if want := []string{"host 1", "host 9", "host 10", "disk", "disk b", "client 1", "client 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTicks(t *testing.T) {
	for d, want := range map[time.Duration]string{
		3 * time.Microsecond: "0.0000005 s", time.Millisecond: "0.0001 s", time.Second: "0.1 s",
		25 * time.Second: "5 s", time.Hour: "500 s",
	} {
		step := tickStep(d)
		if got := tickLabel(step, step); got != want {
			t.Errorf("%v: got steps of %s, want %s", d, got, want)
		}
	}
}
