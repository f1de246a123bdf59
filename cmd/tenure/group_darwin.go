package main

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes put a command into a process group of its own; that it dies with us
// is the shepherd's work alone. With tty the group gets the terminal on standard
// input.
func childAttributes(tty bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0}
}

// unstopped calls a function while SIGTTOU does not stop this process. Commands that are started later
// ignore SIGTTOU, too, because Go does not restore the default action; a thread's mask cannot be set here.
func unstopped(do func()) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	do()
}

// alive takes EPERM for the end: it is also the answer if all processes of the group have
// ended and were not reaped.
func (kernel) alive(group int) bool { return syscall.Kill(-group, 0) == nil }

// process is the kernel's record of a process.
type process struct{ id, parent, group int }

// processTable lists the processes of this machine.
func processTable() func(yield func(process) bool) {
	return func(yield func(process) bool) {
		all, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
		for _, p := range all {
			if !yield(process{int(p.Proc.P_pid), int(p.Eproc.Ppid), int(p.Eproc.Pgid)}) {
				return
			}
		}
	}
}
