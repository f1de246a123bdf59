package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// progress is a line on a terminal that says how far a long run is.
type progress struct {
	terminal *os.File // nil: there is none
	of       int
	what     string // is counted
	start    time.Time
	shown    time.Time
}

func newProgress(f *os.File, of int, what string) *progress {
	p := &progress{of: of, what: what, start: time.Now()}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		p.terminal = f
	}
	return p
}

// show draws the line anew, a few times a second.
func (p *progress) show(done, failures int) {
	now := time.Now()
	if p.terminal == nil || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	fmt.Fprint(p.terminal, "\r\x1b[K"+progressLine(p.what, done, p.of, failures, now.Sub(p.start)))
}

// clear takes the line away.
func (p *progress) clear() {
	if p.terminal != nil {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}

func progressLine(what string, done, of, failures int, passed time.Duration) string {
	rate := float64(done) / max(passed.Seconds(), 1e-3)
	line := fmt.Sprintf("%d of %d %s, %.1f/s", done, of, what, rate)
	if done > 0 {
		left := time.Duration(float64(of-done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	if failures > 0 {
		line += fmt.Sprintf(", %d with a violation", failures)
	}
	return line
}
