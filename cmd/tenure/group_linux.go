package main

import "syscall"

// childAttributes put a command into a process group of its own. The kernel
// kills it when the thread that started it ends, which is when we do: that
// thread is kept. With tty the group gets the terminal on standard input.
func childAttributes(tty bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}
