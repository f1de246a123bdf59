package main

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// TestAnotherUsersProcessesAreAlive: a command that became another user's (setuid) is not
// taken for one that has ended, though we may send it nothing.
func TestAnotherUsersProcessesAreAlive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	ours := sleeper(t).Process.Pid
	alive, gone := make(chan bool, 1), make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its user
		const nobody, as = 65534, ^uintptr(0)
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, as); err != 0 {
			t.Errorf("become another user: %v", err)
		}
		alive <- kernel{}.alive(ours)
		gone <- !kernel{}.alive(1<<22 + 1) // the kernel has no process of this number
	}()
	if !<-alive {
		t.Error("a group of another user's processes counts as ended: the lease is released, and they go on")
	}
	if !<-gone {
		t.Error("a group that is not there counts as alive")
	}
}
