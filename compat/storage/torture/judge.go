package torture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// history has the reports of one name's holders and the attacks on them, in the order of
// the log.
type history struct {
	name  string
	lines []line
	// stopped are the times in which processes did not run. A command whose guardian
	// was stopped with it is not judged by the clock from then on, but by the fence: it
	// cannot know the time, see the help of tenure lock.
	stopped  []window
	commands map[int]bool // processes that look at no deadline
	// barren are times in which nobody need get the lease.
	barren []window
	// stalls are times in which this machine did not get round to running what was due, and late the long ones.
	stalls, late []window

	term, delay time.Duration
	from, to    time.Duration // somebody wants the lease all the time in between
}

// window is a time in which something was the matter, with a process or with all (0).
type window struct {
	pid      int
	from, to time.Duration
	why      string
}

func (w window) meets(from, to time.Duration) bool { return w.from <= to && from <= w.to }

// tenancy is one tenure as it was reported.
type tenancy struct {
	token    uint64
	pid      int
	from, to time.Duration // the first and last time at which it was valid
}

func (t tenancy) String() string {
	return fmt.Sprintf("process %d with token %d from %v to %v", t.pid, t.token, t.from, t.to)
}

// tenancies gathers the lines of each, in order of their beginning.
func (h *history) tenancies() (all []*tenancy, err error) {
	byToken := map[uint64]*tenancy{}
	for _, l := range h.lines {
		if l.what != begin && l.what != beat || h.unguarded(l) {
			continue
		}
		t := byToken[l.token]
		if t == nil {
			t = &tenancy{l.token, l.pid, l.at, l.at}
			byToken[l.token], all = t, append(all, t)
		}
		if t.pid != l.pid {
			err = errors.Join(err, fmt.Errorf("processes %d and %d hold %s with the same token %d", t.pid, l.pid, h.name, l.token))
		}
		t.from, t.to = min(t.from, l.at), max(t.to, l.at)
	}
	slices.SortFunc(all, func(a, b *tenancy) int { return cmp.Compare(a.from, b.from) })
	return all, err
}

// unguarded reports whether a line is that of a command that went on after it was
// stopped together with its guardian.
func (h *history) unguarded(l line) bool {
	return h.commands[l.pid] && slices.ContainsFunc(h.stopped, func(w window) bool { return w.pid == l.pid && l.at >= w.from })
}

// judge returns all that is wrong with a history.
func (h *history) judge() error {
	all, err := h.tenancies()
	errs := []error{err, exclusive(h.name, all), fenced(h.name, h.lines), h.toldInTime(all), h.alive()}
	return errors.Join(errs...)
}

// exclusive wants no two tenures at once, and tokens that grow.
func exclusive(name string, all []*tenancy) (err error) {
	var last *tenancy // the one that lasted longest so far
	for _, t := range all {
		if last != nil && t.from <= last.to {
			err = errors.Join(err, fmt.Errorf("TWO HOLDERS of %s at once: %v; %v", name, last, t))
		}
		if last != nil && t.token <= last.token {
			err = errors.Join(err, fmt.Errorf("THE TOKEN of %s fell: %v; %v", name, last, t))
		}
		if last == nil || t.to > last.to {
			last = t
		}
	}
	return err
}

// fenced wants the fence to admit writes in the order of tokens, and to refuse only those
// of a holder after which a newer one had begun.
func fenced(name string, lines []line) (err error) {
	var written, begun uint64
	for _, l := range lines {
		switch {
		case l.what == begin:
			begun = max(begun, l.token)
		case l.what == stale && l.token >= begun:
			err = errors.Join(err, fmt.Errorf("the fence of %s refused the newest holder: %v", name, l))
		case l.what == write && l.token < written:
			err = errors.Join(err, fmt.Errorf("the fence of %s let a write in after token %d: %v", name, written, l))
		case l.what == write:
			written = l.token
		}
	}
	return err
}

// lateness is how much later than its deadline a holder may hear of a loss, and how much
// later than it should anything may run before it counts as late.
const lateness = 100 * time.Millisecond

// toldInTime wants a holder that lost its lease to be told by its deadline, unless it did
// not run.
func (h *history) toldInTime(all []*tenancy) (err error) {
	deadlines := map[uint64]time.Duration{} // as far as the holder knew last
	for _, l := range h.lines {
		switch {
		case l.what == begin || l.what == beat:
			deadlines[l.token] = l.until
		case l.what != told || h.commands[l.pid]: // its guardian is to end it earlier; it may overlap with nobody
			continue
		}
		deadline := deadlines[l.token]
		if l.what == told && l.at > deadline+lateness && !h.excused(l.pid, deadline, l.at) {
			err = errors.Join(err, fmt.Errorf("the holder of %s was told %v too late: %v", h.name, l.at-deadline, l))
		}
	}
	return err
}

// excused reports whether a process could not run for a part of some time.
func (h *history) excused(pid int, from, to time.Duration) bool {
	return slices.ContainsFunc(slices.Concat(h.stopped, h.late), func(w window) bool {
		return (w.pid == pid || w.pid == 0) && w.meets(from, to)
	})
}

// takeover returns the longest that a name may be free while others wait for it. A dead
// holder takes Δ+6δ, and the next holder a poll, its three accesses and 2δ. A dead waiter
// before it in the queue takes Δ/2+6δ. δ is the greatest that any process measured; no more
// than Δ/12 goes into records. That each step runs when it is due is assumed here; gaps adds
// the time that the machine stalled.
func (h *history) takeover() time.Duration {
	delay := h.delay
	for _, l := range h.lines {
		delay = max(delay, l.delay)
	}
	delay = min(delay, h.term/12)
	return h.term + 6*delay + h.term/50 + 5*delay + h.term/2 + 6*delay
}

// gap is a time without a holder, less what of it nobody could have held.
type gap struct {
	from, to time.Duration
	late     time.Duration // added for a machine that stalled; if it was late, a slow claim has to be waited out, too
}

// gaps are the times without a holder, from report to report.
func (h *history) gaps() (all []gap) {
	add := func(since, until time.Duration) {
		g := gap{from: since, to: until}
		for _, w := range h.barren {
			if w.meets(since, until) {
				g.from = max(g.from, min(w.to, until))
			}
		}
		for _, w := range h.late {
			if w.meets(g.from, until) {
				g.late += h.term + 6*h.delay
			}
		}
		g.late += within(h.stalls, g.from, until)
		all = append(all, g)
	}
	since := h.from
	for _, l := range h.lines {
		if (l.what == begin || l.what == beat) && l.at > since {
			add(since, l.at)
			since = l.at
		}
	}
	if h.to > since {
		add(since, h.to)
	}
	return all
}

// alive wants somebody to get the lease soon, whenever it can be had.
func (h *history) alive() (err error) {
	for _, g := range h.gaps() {
		if limit := h.takeover() + time.Second + g.late; g.to-g.from > limit {
			err = errors.Join(err, fmt.Errorf("NOBODY GOT %s for %v, from %v to %v; it should take %v at most", h.name, g.to-g.from, g.from, g.to, limit))
		}
	}
	return err
}

// longest is the longest gap.
func (h *history) longest() (d time.Duration) {
	for _, g := range h.gaps() {
		d = max(d, g.to-g.from)
	}
	return d
}
