package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	exited   <-chan int            // the command's exit code, once
	stopped  <-chan syscall.Signal // what stopped the command
	shepherd *shepherd
	tty      bool // it has the terminal
}

// startGroup starts a command with our own standard files, if may has no objection at
// the last moment.
func startGroup(argv, env []string, may func() error) (*group, error) {
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
	g := &group{shepherd: s, tty: foreground() == unix.Getpgrp()}
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: childAttributes(g.tty),
	}
	started, exited, stopped := make(chan error), make(chan int, 1), make(chan syscall.Signal, 1)
	go func() {
		runtime.LockOSThread() // see childAttributes
		err := may()
		if err == nil {
			if err = cmd.Start(); err != nil {
				err = exitError{exitCannotRun, fmt.Errorf("cannot run %q: %w", argv[0], err)}
			}
		}
		started <- err
		if err == nil {
			exited <- await(cmd.Process.Pid, stopped)
		}
	}()
	if err := <-started; err != nil {
		s.dismiss()
		return nil, err
	}
	g.id, g.exited, g.stopped = cmd.Process.Pid, exited, stopped
	s.watch(g.id)
	return g, nil
}

// await returns the exit code of a child, and tells when it is stopped.
func await(pid int, stopped chan<- syscall.Signal) int {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			panic(fmt.Sprintf("wait for process %d: %v", pid, err)) // a bug: it is our child
		case !status.Stopped():
			return exitCode(status)
		default:
			select {
			case stopped <- status.StopSignal():
			default: // it was told, and not heard yet
			}
		}
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
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
	g.terminate()
	if !g.ended(limit) {
		g.signal(syscall.SIGKILL)
		g.ended(grace)
	}
	g.shepherd.dismiss()
	if g.tty {
		passTerminal(unix.Getpgrp())
	}
}

// ended waits until none of the group is left, or returns false at the limit.
func (g *group) ended(limit time.Duration) bool {
	end := clock.System.Alarm(clock.After(clock.System, limit))
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for alive(g.id) {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}
