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

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// group is a command with all the processes that it starts, as long as they stay
// in its process group.
type group struct {
	processes
	clock    clock.Clock
	shepherd *shepherd
	id       int
	exited   <-chan int            // the command's exit code, once
	stopped  <-chan syscall.Signal // the signal that stopped the command
	tty      bool                  // it has the terminal
}

// processes are the calls of the kernel that a guard needs.
type processes interface {
	kill(group int, sig syscall.Signal)
	alive(group int) bool // reports whether any process of the group is left
}

type kernel struct{}

func (kernel) kill(group int, sig syscall.Signal) { _ = syscall.Kill(-group, sig) } // one that is gone is no error

// findCommand returns the path of a command. The error has a shell's exit code.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		code := cli.ExitNotFound
		if errors.Is(err, os.ErrPermission) {
			code = cli.ExitCannotRun
		}
		return "", cli.Exit(code, fmt.Errorf("cannot run %q: %w", name, err))
	}
	return path, nil
}

// startGroup starts a command with our own standard files, unless may returns an error at the
// last moment. From then on the shepherd kills the command at the deadline that tell has told
// it, even while we are stopped.
func startGroup(argv, env []string, tell func(*shepherd), may func() error) (*group, error) {
	path, err := findCommand(argv[0])
	if err != nil {
		return nil, err
	}
	s, err := startShepherd()
	if err != nil {
		return nil, err
	}
	g := &group{shepherd: s, processes: kernel{}, clock: clock.System, tty: foreground() == unix.Getpgrp()}
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: childAttributes(g.tty),
	}
	started, exited, stopped := make(chan error), make(chan int, 1), make(chan syscall.Signal, 1)
	go func() {
		runtime.LockOSThread() // see childAttributes
		err := g.launch(tell, may, func() (int, error) {
			if err := cmd.Start(); err != nil {
				return 0, cli.Exit(cli.ExitCannotRun, fmt.Errorf("cannot run %q: %w", argv[0], err))
			}
			id := cmd.Process.Pid
			_ = cmd.Process.Release() // we wait for it by its number, and need no descriptor besides
			return id, nil
		})
		started <- err
		if err == nil {
			exited <- await(g.id, stopped)
		}
	}()
	if err := <-started; err != nil {
		s.dismiss()
		return nil, err
	}
	g.exited, g.stopped = exited, stopped
	return g, nil
}

// launch starts the command. The shepherd knows the deadline before, and the group afterwards:
// we may be stopped at any moment between. If we are killed just there, the command dies with
// us, and children that it has started by then do not.
func (g *group) launch(tell func(*shepherd), may func() error, start func() (int, error)) (err error) {
	tell(g.shepherd)
	if err = may(); err != nil {
		return err
	}
	if g.id, err = start(); err != nil {
		return err
	}
	g.shepherd.watch(g.id)
	return nil
}

// await returns the exit code of a child, and sends on stopped each signal that stops it.
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
		return cli.ExitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// signal sends a signal to all of the group.
func (g *group) signal(sig syscall.Signal) { g.kill(g.id, sig) }

// terminate asks the group to end, even if it is stopped.
func (g *group) terminate() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

// sweep ends the processes that the command left behind in its group: they would go on without
// a lease. They have until limit to end by themselves, and are killed then. That takes the kernel a
// moment, or any time for a process that waits for a disk. After each grace, lingers reports
// whether to wait on.
func (g *group) sweep(limit, grace time.Duration, lost <-chan struct{}, lingers func() bool) {
	g.terminate()
	if !g.ended(limit, lost) {
		g.signal(syscall.SIGKILL)
		for !g.ended(grace, nil) && lingers() {
			continue
		}
	}
	g.shepherd.dismiss()
	if g.tty {
		passTerminal(unix.Getpgrp())
	}
}

// ended waits until none of the group is left, or returns false at the limit or once the lease is lost.
func (g *group) ended(limit time.Duration, lost <-chan struct{}) bool {
	end := g.clock.Alarm(clock.After(g.clock, limit))
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for g.alive(g.id) {
		select {
		case <-tick.C:
		case <-lost:
			return false
		case <-end.C:
			return !g.alive(g.id) // we may have been stopped since we looked
		}
	}
	return true
}
