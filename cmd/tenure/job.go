package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A guardian that is stopped cannot act, so the command must not run while it is. Where a shell
// has job control, Ctrl-Z stops the command's group only, which has the terminal; the shell
// waits for us. So we stop as well, the command first, and when the shell makes us go on, the
// command may if the lease is still ours. A stop that was not asked for, by SIGSTOP or a
// suspended machine, is beyond this.

// catchStops makes SIGTSTP and SIGCONT ours until the function is called. (Go does not
// give SIGTSTP back its default action: from then on it is ignored.)
func (g *guard) catchStops() (restore func()) {
	g.jobs = make(chan os.Signal, 4)
	signal.Notify(g.jobs, syscall.SIGTSTP, syscall.SIGCONT)
	return func() { signal.Stop(g.jobs) }
}

// suspend stops the group and then us, and all of our job if the terminal asked for it:
// it has told the command's group alone. It returns when we go on.
func (g *guard) suspend(group *group, byTerminal bool) {
	if !g.shell() {
		if group.tty { // no other process would make the command go on
			g.proceed(group)
		}
		return
	}
	group.pause(byTerminal)
	if !g.continued() {
		g.halt(byTerminal)
		for sig := range g.jobs {
			if sig == syscall.SIGCONT {
				break
			}
		}
	}
	g.proceed(group)
}

// stopUs stops this process, and the others of our job if the terminal asked for it.
func (g *guard) stopUs(byTerminal bool) {
	if byTerminal { // ours would be heard later
		signal.Ignore(syscall.SIGTSTP)
		_ = syscall.Kill(0, syscall.SIGTSTP)
		signal.Notify(g.jobs, syscall.SIGTSTP)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// continued reports whether another process has made us go on before we stopped.
func (g *guard) continued() bool {
	for len(g.jobs) > 0 {
		if <-g.jobs == syscall.SIGCONT {
			return true
		}
	}
	return false
}

// controlled reports whether there is a shell that can make us go on when we are stopped. The
// kernel knows: without one, SIGTSTP stops no process in our process group.
func controlled() bool {
	probe := exec.Command("/bin/sh", "-c", "kill -TSTP $$")
	if probe.Start() != nil {
		return false
	}
	id := probe.Process.Pid
	_ = probe.Process.Release() // its number is enough, and it keeps a descriptor besides
	var status syscall.WaitStatus
	_, err := syscall.Wait4(id, &status, syscall.WUNTRACED, nil)
	if err != nil || !status.Stopped() {
		return false
	}
	_ = syscall.Kill(id, syscall.SIGKILL)
	_, _ = syscall.Wait4(id, &status, 0, nil)
	return true
}

// proceed lets a group go on that may be stopped, once the lease is ours for long enough.
// If that does not come about the group stays as it is, and is about to be killed.
func (g *guard) proceed(group *group) {
	for g.lease.Check() == nil {
		left := time.Until(g.lease.Deadline())
		if left > g.termAt() {
			group.resume()
			return
		}
		if left <= g.killAt() {
			return
		}
		<-time.After(min(10*time.Millisecond, g.killAt())) // a renewal is under way
	}
}

// pause stops all of the group. If it was not stopped it is asked first, for a command
// may have to prepare, as an editor does.
func (g *group) pause(already bool) {
	g.tty = false // the shell takes it
	if !already {
		g.signal(syscall.SIGTSTP)
		already = g.awaitStop()
	}
	g.signal(syscall.SIGSTOP)
	if !already {
		g.awaitStop()
	}
}

// awaitStop waits for the group to stop, but not for long, and reports whether it has stopped.
func (g *group) awaitStop() bool {
	select {
	case <-g.stopped:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// resume lets the group go on, with the terminal if we were given it.
func (g *group) resume() {
	front := foreground()
	if front == unix.Getpgrp() {
		passTerminal(g.id)
	}
	g.tty = front == unix.Getpgrp() || front == g.id
	g.signal(syscall.SIGCONT)
}

// foreground is the process group that has the terminal on our standard input; -1 if there is
// none. It is not 0 then: in a PID namespace that was entered with the group of a process outside,
// as by unshare, that is the number of our own group.
func foreground() int { return foregroundOf(0) }

func foregroundOf(fd int) int {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// passTerminal gives a process group the terminal. SIGTTOU would stop a process that does so from the
// background.
func passTerminal(group int) {
	unstopped(func() { _ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) })
}
