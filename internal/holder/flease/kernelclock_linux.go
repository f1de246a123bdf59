package flease

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// kernelClock returns why the kernel does not vouch that the synchronized clock is right to within
// limit; nil if it does.
func kernelClock(limit time.Duration) error {
	var t unix.Timex // with Modes 0 it only reads, which needs no privilege
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return fmt.Errorf("the kernel does not say how wrong its clock may be: %w; run without the check", err)
	}
	return judgeTimex(state, &t, limit)
}

// judgeTimex is judgeClock for the kernel's answer, which counts microseconds.
func judgeTimex(state int, t *unix.Timex, limit time.Duration) error {
	return judgeClock(state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0, time.Duration(t.Maxerror)*time.Microsecond, limit)
}
