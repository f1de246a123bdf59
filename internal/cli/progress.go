package cli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Progress is a line on a terminal that says how far a long run is.
type Progress struct {
	terminal *os.File // nil: there is none
	of       int
	What     string // is counted
	start    time.Time
	shown    time.Time
}

// NewProgress returns a line for so many things of a kind. It shows nothing if the file is no
// terminal.
func NewProgress(f *os.File, of int, what string) *Progress {
	p := &Progress{of: of, What: what, start: time.Now()}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		p.terminal = f
	}
	return p
}

// Show draws the line anew, a few times a second.
func (p *Progress) Show(done, failures int) {
	now := time.Now()
	if p.terminal == nil || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	fmt.Fprint(p.terminal, "\r\x1b[K"+progressLine(p.What, done, p.of, failures, now.Sub(p.start)))
}

// Clear takes the line away.
func (p *Progress) Clear() {
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
