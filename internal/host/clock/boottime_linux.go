package clock

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/machine"
)

const clockID = unix.CLOCK_BOOTTIME

// timerfdWaiter waits on a timerfd of CLOCK_BOOTTIME through the poller.
type timerfdWaiter struct{ f *os.File }

func newWaiter() waiter {
	fd, err := unix.TimerfdCreate(clockID, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newSliceWaiter() // an old kernel, a sandbox, or no descriptor left
	}
	return timerfdWaiter{os.NewFile(uintptr(fd), "timerfd")}
}

func (w timerfdWaiter) arm(at machine.Mono) {
	// A value of zero would disarm; a reading in the past rings at once.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))}
	conn, err := w.f.SyscallConn()
	if err == nil {
		err2 := conn.Control(func(fd uintptr) {
			err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
		})
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		panic(fmt.Sprintf("clock: arm timerfd: %v", err)) // a bug: the descriptor and the time are valid
	}
}

func (w timerfdWaiter) wait() {
	var count [8]byte
	if _, err := w.f.Read(count[:]); err != nil {
		panic(fmt.Sprintf("clock: read timerfd: %v", err))
	}
}
