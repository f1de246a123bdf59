package clock

import "golang.org/x/sys/unix"

// clockID counts sleep on macOS, unlike CLOCK_UPTIME_RAW (see its clock_gettime
// manual page).
const clockID = unix.CLOCK_MONOTONIC

func newWaiter() waiter { return newSliceWaiter() }
