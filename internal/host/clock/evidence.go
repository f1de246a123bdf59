package clock

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Evidence is what this machine's clocks show at one moment.
type Evidence struct {
	Now     machine.Mono  // the clock of leases
	Running time.Duration // the same as far as the machine was awake, on Linux
	Raw     time.Duration // the same without the corrections of NTP
	Wall    machine.Wall  // the time of day
	Within  time.Duration // how long it took to read them
}

// moment is how long reading the clocks may take: had the thread to wait in between, it
// would look as if one of them had jumped.
const moment = 200 * time.Microsecond

// Look reads all clocks at one moment, or as good as that can be done just now.
func Look() Evidence { return best(readAll) }

// best reads until one reading was quick enough, a few times at most, and returns the quickest.
func best(read func() Evidence) (best Evidence) {
	for i := range 16 {
		if e := read(); i == 0 || e.Within < best.Within {
			best = e
		}
		if best.Within < moment {
			break
		}
	}
	return best
}

func readAll() Evidence { return readAllBy(read) }

// readAllBy is readAll with what reads a clock.
func readAllBy(read func(id int32) (time.Duration, error)) Evidence {
	e := Evidence{Now: now(), Wall: machine.Wall(time.Now().UnixNano())}
	e.Running, _ = read(unix.CLOCK_MONOTONIC)
	if raw, err := read(unix.CLOCK_MONOTONIC_RAW); err == nil {
		e.Raw = raw
	} else {
		e.Raw = e.Running // a sandbox: nothing to compare with
	}
	e.Within = now().Sub(e.Now)
	return e
}

func read(id int32) (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(id, &ts)
	return time.Duration(ts.Nano()), err
}
