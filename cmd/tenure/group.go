package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/clock"
)

// group is a command with all the processes that it starts, as long as they stay
// in its process group.
type group struct {
	id       int
	exited   <-chan int // the command's exit code, once
	shepherd *shepherd
	tty      bool // it has the terminal
}

// startGroup starts a command with our own standard files.
func startGroup(argv, env []string) (*group, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		code := exitNotFound
		if errors.Is(err, os.ErrPermission) {
			code = exitCannotRun
		}
		return nil, exitError{code, fmt.Errorf("cannot run %q: %w", argv[0], err)}
	}
	s, err := startShepherd()
	if err != nil {
		return nil, err
	}
	g := &group{shepherd: s, tty: ownsTerminal()}
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: childAttributes(g.tty),
	}
	started, exited := make(chan error), make(chan int, 1)
	go func() {
		runtime.LockOSThread() // see childAttributes
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			exited <- exitCode(cmd.ProcessState)
		}
	}()
	if err := <-started; err != nil {
		s.dismiss()
		return nil, exitError{exitCannotRun, fmt.Errorf("cannot run %q: %w", argv[0], err)}
	}
	g.id, g.exited = cmd.Process.Pid, exited
	s.watch(g.id)
	return g, nil
}

func exitCode(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return p.ExitCode()
}

// signal sends a signal to all of the group; one that is gone is no error.
func (g *group) signal(sig syscall.Signal) { _ = syscall.Kill(-g.id, sig) }

// terminate asks the group to end, even if it is stopped.
func (g *group) terminate() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

// sweep ends what the command left behind in its group: it would go on without
// a lease. It gets until limit to end by itself, and then until grace to be killed:
// the kernel takes a moment, or longer for one that waits for a disk.
func (g *group) sweep(limit, grace time.Duration) {
	g.signal(syscall.SIGTERM)
	if !g.ended(limit) {
		g.signal(syscall.SIGKILL)
		g.ended(grace)
	}
	g.shepherd.dismiss()
	if g.tty {
		takeTerminal()
	}
}

// ended waits until none of the group is left, or returns false at the limit.
func (g *group) ended(limit time.Duration) bool {
	end := clock.System.Alarm(clock.After(clock.System, limit))
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(-g.id, 0) == nil {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// ownsTerminal tells whether we are in the foreground of a terminal that is our
// standard input.
func ownsTerminal() bool {
	front, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && front == unix.Getpgrp()
}

// takeTerminal brings us back to the foreground.
func takeTerminal() {
	// Whoever asks for the terminal from the background is stopped, unless it
	// ignores that.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
}
