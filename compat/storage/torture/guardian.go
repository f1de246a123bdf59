package torture

import (
	"errors"
	"fmt"
	"time"
)

// The exit codes of tenure lock, see its help.
const (
	exitNotAcquired = 75
	exitLost        = 76
	exitUnavailable = 69
)

// judge wants guardians that nobody touched to tell the truth: 0 after a command that
// ran to its end, 76 if it was stopped, and that before the deadline.
func (ps *processes) judge(h *history) (err error) {
	byPID := map[int][]line{}
	for _, l := range h.lines {
		byPID[l.pid] = append(byPID[l.pid], l)
	}
	for _, g := range ps.runs {
		if !g.touched {
			err = errors.Join(err, g.judge(h, byPID[g.command], ps.skew))
		}
	}
	return err
}

func (g *guarded) judge(h *history, lines []line, skew time.Duration) error {
	deadline := time.Duration(0)
	for _, e := range g.lines {
		if e.Event == "acquired" || e.Event == "renewed" {
			deadline = time.Duration(e.Deadline.UnixNano()) + skew
		}
	}
	ended, last := false, time.Duration(0)
	for _, l := range lines {
		ended = ended || l.what == end
		if l.what == beat {
			last = l.at
		}
	}
	switch {
	case g.code == 0 && !ended:
		return fmt.Errorf("guardian %d exited with 0, but its command had not ended", g.pid)
	case g.code != 0 && g.code != exitLost && g.code != exitNotAcquired && g.code != exitUnavailable:
		return fmt.Errorf("guardian %d exited with %d: %+v", g.pid, g.code, g.lines)
	case (g.code == exitNotAcquired || g.code == exitUnavailable) && ended:
		return fmt.Errorf("guardian %d exited with %d after its command had run", g.pid, g.code)
	case last > deadline && !h.excused(g.pid, deadline, last):
		return fmt.Errorf("the command of guardian %d ran %v beyond the deadline: %+v", g.pid, last-deadline, g.lines)
	}
	return nil
}
