package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func init() {
	if len(os.Args) == 2 && os.Args[1] == "prober" {
		fmt.Println(controlled(), children(os.Getpid()))
		os.Exit(0)
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
