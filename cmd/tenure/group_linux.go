package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// childAttributes put a command into a process group of its own. The kernel
// kills it when the thread that started it ends, which is when we do: that
// thread is kept. With tty the group gets the terminal on standard input.
func childAttributes(tty bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}

// alive tells whether any process of the group is left. For kill(2) those count that have
// ended and were not reaped; where the first process does not reap, as in many a
// container, they stay for ever.
func alive(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	dead := false
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		stat, _ := os.ReadFile(file)
		// pid (name) state parent group …; the name may have anything in it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		if state := string(fields[0]); state != "Z" && state != "X" {
			return true
		}
		dead = true
	}
	// None is seen at all: it was reaped meanwhile, or /proc does not show it.
	return !dead && syscall.Kill(-group, 0) == nil
}
