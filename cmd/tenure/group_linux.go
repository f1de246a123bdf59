package main

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes put a command into a process group of its own. The kernel
// kills it when the thread that started it ends, which is when we do: that
// thread is kept. With tty the group gets the terminal on standard input.
func childAttributes(tty bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}

// unstopped calls a function with all signals of its thread blocked, so that SIGTTOU does not stop this
// process. Ignoring SIGTTOU meanwhile would outlast the call: Go does not restore the default action,
// and commands that are started later would ignore it, too.
func unstopped(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	do()
}

// alive asks /proc, too. For kill(2) a process counts that has ended and was not reaped;
// where the first process does not reap, as in many a container, it stays for ever.
func (kernel) alive(group int) bool { return aliveIn(processTable(), group) }

// aliveIn is alive, according to /proc.
func aliveIn(table iter.Seq[process], group int) bool {
	if hasEnded(group) {
		return false
	}
	dead := false
	for p := range table {
		if p.group != group {
			continue
		}
		if p.state != "Z" && p.state != "X" {
			return true
		}
		dead = true
	}
	// None is seen at all: it was reaped meanwhile, or /proc does not show it.
	return !dead && !hasEnded(group)
}

// hasEnded reports whether the kernel knows no process of the group. EPERM says that it
// knows some, all of other users: a command may have become another user's.
func hasEnded(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }

// process is the record of a process in /proc.
type process struct {
	id, parent, group int
	state             string
}

// processTable lists the processes that /proc shows.
func processTable() iter.Seq[process] {
	return func(yield func(process) bool) {
		all, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range all {
			stat, _ := os.ReadFile(file) // it may have ended
			// pid (name) state parent group …; the name may have anything in it.
			fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
			if len(fields) < 3 {
				continue
			}
			p := process{state: string(fields[0])}
			p.id, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			p.parent, _ = strconv.Atoi(string(fields[1]))
			p.group, _ = strconv.Atoi(string(fields[2]))
			if !yield(p) {
				return
			}
		}
	}
}
