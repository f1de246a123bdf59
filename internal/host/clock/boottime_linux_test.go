package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTimersStayWithTheProcess: a program that is started inherits no timer, and a goroutine that waits for one
// takes no thread.
func TestTimersStayWithTheProcess(t *testing.T) {
	w, ok := newWaiter().(timerfdWaiter)
	if !ok {
		t.Skip("timers of the kernel cannot be made here")
	}
	defer w.f.Close()
	conn, err := w.f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) {
		for what, c := range map[string]struct{ get, want int }{
			"closed when a program is started": {unix.F_GETFD, unix.FD_CLOEXEC},
			"waited for by the poller":         {unix.F_GETFL, unix.O_NONBLOCK},
		} {
			if flags, err := unix.FcntlInt(fd, c.get, 0); err != nil || flags&c.want == 0 {
				t.Errorf("a timer has the flags %#x, %v: it is not %s", flags, err, what)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutATimerOfTheKernel: where there is none to be had, for want of a descriptor, alarms are
// waited for without one.
func TestWithoutATimerOfTheKernel(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	w := newWaiter()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.(*sliceWaiter); !ok {
		t.Errorf("no descriptor is left, and alarms are waited for with %T", w)
	}
}
