package torture

import (
	"context"
	"sync"
	"time"
)

const (
	// heartbeat is how often the judge looks how late the machine wakes it.
	heartbeat = 10 * time.Millisecond
	// prompt is how late anything is woken on an idle machine.
	prompt = time.Millisecond
)

// stalls are what the judge measures of the machine by a goroutine of its own, which wakes at each heartbeat: the times from when it
// was due until it ran. In each the machine owed somebody a turn.
type stalls struct {
	all  []window
	late []window // those that are long: what meets one may have failed, and be done again
}

// add takes in that what was due ran at some time.
func (s *stalls) add(due, at time.Duration) {
	if at-due > prompt {
		s.all = append(s.all, window{0, due, at, "stalled"})
	}
	if at-due > lateness/2 {
		s.late = append(s.late, window{0, due, at, "late"})
	}
}

// within is how long the machine stalled in some time, all together.
func within(all []window, from, to time.Duration) (sum time.Duration) {
	for _, w := range all {
		sum += max(0, min(w.to, to)-max(w.from, from))
	}
	return sum
}

// watchStalls measures until its result is asked for.
func watchStalls(ctx context.Context) (stop func() stalls) {
	ctx, cancel := context.WithCancel(ctx)
	var s stalls
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			due := now() + heartbeat
			pause(ctx, heartbeat)
			s.add(due, now())
		}
	})
	return func() stalls {
		cancel()
		done.Wait()
		return s
	}
}
