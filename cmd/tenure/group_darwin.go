package main

import "syscall"

// childAttributes put a command into a process group of its own; that it dies with us
// is the shepherd's work alone. With tty the group gets the terminal on standard
// input.
func childAttributes(tty bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0}
}

// alive tells whether any process of the group is left.
func alive(group int) bool { return syscall.Kill(-group, 0) == nil }
