package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	if len(os.Args) != 2 {
		return
	}
	switch os.Args[1] {
	case "prober":
		fmt.Println(controlled(), children(os.Getpid()))
	case "front":
		front()
	default:
		return
	}
	os.Exit(0)
}

// front is the foreground job of a terminal. It says which group has the terminal while its command runs, and
// afterwards; and which has it when a group of its own goes on behind another.
func front() {
	us := unix.Getpgrp()
	_, err := fakeTenancy("sh", "-c", `test "$(cut -d ' ' -f 8 /proc/$$/stat)" = $$ && echo the command`).under(context.Background(), &fakeLease{})
	fmt.Println("then us:", foreground() == us, err)
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := other.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	g := &group{processes: nobody{}, id: other.Process.Pid}
	g.resume()
	fmt.Println("the group that goes on:", foreground() == other.Process.Pid, g.tty)
	g.tty = false
	g.resume()
	fmt.Println("and again:", foreground() == other.Process.Pid, g.tty)
	passTerminal(us)
	ours := &group{processes: nobody{}, id: us}
	passTerminal(other.Process.Pid)
	ours.resume()
	fmt.Println("still another:", foreground() == other.Process.Pid, ours.tty)
	_, err = fakeTenancy("sh", "-c", `test "$(cut -d ' ' -f 8 /proc/$$/stat)" != $$ || echo stolen`).under(context.Background(), &fakeLease{})
	fmt.Println("and after a command in the background:", foreground() == other.Process.Pid, err)
}

// TestWhichGroupHasTheTerminal: a command has the terminal of its guard as long as it runs, and the guard has it
// again afterwards. A group that goes on has it only if the guard had: else it is another job's, or the shell's.
func TestWhichGroupHasTheTerminal(t *testing.T) {
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	job := exec.Command(os.Args[0], "front")
	job.Stdin, job.Stderr = screen, os.Stderr
	job.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := job.Output()
	if want := "the command\nthen us: true <nil>\nthe group that goes on: true true\nand again: true true\nstill another: true false\nand after a command in the background: true <nil>\n"; err != nil || string(out) != want {
		t.Errorf("the terminal has %q, %v; want %q", out, err, want)
	}
}

// children are the numbers of a process's children, with those that were not reaped.
func children(parent int) (all []int) {
	for p := range processTable() {
		if p.parent == parent {
			all = append(all, p.id)
		}
	}
	return all
}

// TestWhetherThereIsAShell: a process knows whether another could make it go on, and the question leaves nothing
// behind.
func TestWhetherThereIsAShell(t *testing.T) {
	for name, tt := range map[string]struct {
		attributes syscall.SysProcAttr
		says       string
	}{
		"a job of this process": {syscall.SysProcAttr{Setpgid: true}, "true []\n"},
		"a session of its own":  {syscall.SysProcAttr{Setsid: true}, "false []\n"},
	} {
		prober := exec.Command(os.Args[0], "prober")
		prober.SysProcAttr = &tt.attributes
		if out, err := prober.Output(); err != nil || string(out) != tt.says {
			t.Errorf("%s: it says %q, %v; want %q: whether there is a shell, and no child", name, out, err, tt.says)
		}
	}
}
