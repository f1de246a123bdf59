package torture

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the machine's time since boot, suspend included: the same for all its
// processes, and never set.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		panic(err) // the clock exists on every system this builds for
	}
	return time.Duration(ts.Nano())
}
