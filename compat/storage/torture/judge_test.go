package torture

import (
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// good is a history that passes: 1 dies, 2 is told, 3 ends.
func good() history {
	return history{
		name: "a", term: time.Second, delay: 10 * ms, from: 0, to: 8000 * ms, commands: map[int]bool{},
		lines: []line{
			{1, 1, begin, 1000 * ms, 2000 * ms, 0},
			{1, 1, write, 1001 * ms, 2000 * ms, 0},
			{1, 1, beat, 1500 * ms, 2000 * ms, 0},
			{2, 2, begin, 3000 * ms, 4000 * ms, 10 * ms},
			{2, 2, write, 3001 * ms, 4000 * ms, 10 * ms},
			{2, 2, beat, 3900 * ms, 4000 * ms, 10 * ms},
			{2, 2, told, 4010 * ms, 4000 * ms, 10 * ms},
			{5, 3, begin, 5000 * ms, 7000 * ms, 20 * ms},
			{2, 2, stale, 5001 * ms, 4000 * ms, 10 * ms},
			{5, 3, write, 5002 * ms, 7000 * ms, 20 * ms},
			{5, 3, beat, 7000 * ms, 8000 * ms, 20 * ms},
			{5, 3, end, 7100 * ms, 8000 * ms, 20 * ms},
		},
	}
}

// TestJudge shows the judge histories with one thing wrong each.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *history)
		want   string // part of the verdict; empty: none
	}{
		{"good", func(h *history) {}, ""},
		{"overlap", func(h *history) { h.lines[5].at = 5000 * ms }, "TWO HOLDERS"},
		{"overlap inside", func(h *history) { h.lines[3].at = 1200 * ms }, "TWO HOLDERS"},
		{"token fell", func(h *history) {
			for i := range h.lines {
				if h.lines[i].token == 5 {
					h.lines[i].token = 1
				}
			}
		}, "hold a with the same token"},
		{"token fell between others", func(h *history) { h.lines[7].token, h.lines[9].token, h.lines[10].token = 2, 2, 2 }, "same token 2"},
		{"token smaller", func(h *history) { h.lines[3].token, h.lines[4].token, h.lines[5].token, h.lines[6].token = 9, 9, 9, 9 }, "THE TOKEN of a fell"},
		{"written out of order", func(h *history) { h.lines[11].what, h.lines[11].token = write, 2 }, "let a write in"},
		{"refused without reason", func(h *history) { h.lines[8].token = 5 }, "refused the newest"},
		{"told late", func(h *history) { h.lines[6].at = 4200 * ms }, "too late"},
		{"told late, stopped", func(h *history) {
			h.lines[6].at = 4200 * ms
			h.stopped = []window{{2, 3950 * ms, 4150 * ms, ""}}
		}, ""},
		{"told late, another stopped", func(h *history) {
			h.lines[6].at = 4200 * ms
			h.stopped = []window{{3, 3950 * ms, 4150 * ms, ""}}
		}, "too late"},
		{"nobody", func(h *history) {
			h.to = 12000 * ms
		}, "NOBODY GOT a"},
		{"nobody in the middle", func(h *history) {
			for i := 7; i < len(h.lines); i++ {
				h.lines[i].at += 4000 * ms
			}
			h.to = 12000 * ms
		}, "NOBODY GOT a"},
		{"nobody, nor could they", func(h *history) {
			h.to = 12000 * ms
			h.barren = []window{{0, 7500 * ms, 11000 * ms, ""}}
		}, ""},
		{"nobody after they could", func(h *history) {
			h.to = 16000 * ms
			h.barren = []window{{0, 7500 * ms, 11000 * ms, ""}}
		}, "NOBODY GOT a"},
		{"nobody for a little too long", func(h *history) { h.to = h.bound() + 30*ms }, "NOBODY GOT a"},
		{"nobody for a little too long, on a machine that stalled", func(h *history) {
			h.to = h.bound() + 30*ms
			for at := h.to - 2000*ms; at < h.to-1000*ms; at += 20 * ms {
				h.stalls = append(h.stalls, window{0, at, at + ms, ""})
			}
		}, ""},
		{"nobody for longer than it stalled", func(h *history) {
			h.to = h.bound() + 60*ms
			for at := h.to - 2000*ms; at < h.to-1000*ms; at += 20 * ms {
				h.stalls = append(h.stalls, window{0, at, at + ms, ""})
			}
		}, "NOBODY GOT a"},
		{"nobody, on a machine that had stalled before", func(h *history) {
			h.to = h.bound() + 30*ms
			h.stalls = []window{{0, 2000 * ms, 4000 * ms, ""}}
		}, "NOBODY GOT a"},
		{"a command that was stopped", func(h *history) {
			h.lines[5].at = 5000 * ms
			h.commands[2] = true
			h.stopped = []window{{2, 3500 * ms, 4999 * ms, ""}}
		}, ""},
		{"a holder that was stopped", func(h *history) {
			h.lines[5].at = 5000 * ms
			h.stopped = []window{{2, 3500 * ms, 4999 * ms, ""}}
		}, "TWO HOLDERS"},
	} {
		h := good()
		c.change(&h)
		err := h.judge()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

// bound is the last time up to which nobody need hold the lease of a good history.
func (h *history) bound() (at time.Duration) {
	for _, l := range h.lines {
		if l.what == begin || l.what == beat {
			at = max(at, l.at)
		}
	}
	return at + h.takeover() + time.Second
}

// Each stall is measured, and the long ones count as late; what runs in time does not.
func TestStalls(t *testing.T) {
	var s stalls
	for at, by := range map[time.Duration]time.Duration{1000 * ms: ms, 2000 * ms: 2 * ms, 3000 * ms: 50 * ms, 4000 * ms: 51 * ms} {
		s.add(at, at+by)
	}
	if got := within(s.all, 0, 9000*ms); got != 103*ms {
		t.Errorf("it stalled for %v, want 103ms", got)
	}
	if got := within(s.all, 3040*ms, 4001*ms); got != 11*ms {
		t.Errorf("it stalled for %v in a part of that time, want 11ms", got)
	}
	if got := within(s.late, 0, 9000*ms); got != 51*ms {
		t.Errorf("it was late for %v, want 51ms", got)
	}
}

func TestLog(t *testing.T) {
	dir := t.TempDir()
	f, err := openLog(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := good().lines
	for _, l := range want {
		if err := f.add(l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readLog(dir, "a")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d lines, %v, want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: got %v, want %v", i, got[i], want[i])
		}
	}
}
