package holders

import (
	"context"
	"errors"

	"github.com/tenure-lease/tenure"
)

// periods are the runs of a name's work that is done once a period. All holders have one clock.
type periods struct {
	runs map[uint64]string // token of an acknowledged run, and its holder
	last tenure.Run        // the last run that was acknowledged
}

// period does the work of a period under an exclusive lease that is held, if it is due.
func (h *Holder) period(l tenure.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), h.Habits.Term)
	defer cancel()
	p := tenure.Periodic{Leaser: h.Leaser, Claim: tenure.Claim{Name: l.Name()}, Every: h.Habits.Every}
	known := h.Judge.lastRun(l.Name())
	if last, err := p.Last(ctx); err == nil && !h.Ended() && last.Token < known.Token {
		h.World.Fail("period: %s reads the run of token %d of %s, and that of token %d was acknowledged before", h.Name, last.Token, l.Name(), known.Token)
	}
	run, err := p.Begin(ctx, l)
	h.Process.Gate()
	switch {
	case h.Ended():
	case errors.Is(err, tenure.ErrDone):
		h.World.Count("done in this period", 1)
	case err == nil:
		h.World.Count("periods", 1)
		h.Judge.ran(h, l.Name(), known, run)
		if h.Float("end") < 0.5 && p.End(ctx, l, run, nil) == nil {
			h.World.Count("ends of periods", 1)
		}
	}
}

// periodOf is what is known of a name. j.mu is held.
func (j *Judge) periodOf(name string) *periods {
	if j.periods[name] == nil {
		j.periods[name] = &periods{runs: map[uint64]string{}}
	}
	return j.periods[name]
}

func (j *Judge) lastRun(name string) tenure.Run {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.periodOf(name).last
}

// ran takes in a run that was acknowledged. before is the last one that was when it was tried.
func (j *Judge) ran(h *Holder, name string, before, run tenure.Run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.periodOf(name)
	j.w.Trace.Add("%s begins the work of %s under token %d", h.Name, name, run.Token)
	if other, twice := p.runs[run.Token]; twice {
		j.w.Fail("period: %s and %s have recorded the work of %s, both under token %d", other, h.Name, name, run.Token)
	}
	if since := run.Started.Sub(before.Started); !before.Started.IsZero() && since < h.Habits.Every {
		j.w.Fail("period: %s begins the work of %s %v after %s, and a period is %v", h.Name, name, since, before.Holder, h.Habits.Every)
	}
	p.runs[run.Token] = h.Name
	if run.Token > p.last.Token {
		p.last = run
	}
}
