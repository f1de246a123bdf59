package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// shepherd is a second process of ours, which outlives us for a moment: when the
// pipe between us breaks, however we ended, it kills the command's whole group.
// (The kernel's parent-death signal reaches the command, but not its children.)
type shepherd struct {
	process *exec.Cmd
	pipe    io.WriteCloser
}

func startShepherd() (*shepherd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "shepherd")
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = os.Stderr
	// In a group of its own it does not get the signals that end ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a second process of %s, which watches over the command: %w", self, err)
	}
	return &shepherd{cmd, pipe}, nil
}

// watch tells it which group to kill when we are gone.
func (s *shepherd) watch(group int) { fmt.Fprintln(s.pipe, group) }

// dismiss ends it without harm.
func (s *shepherd) dismiss() {
	fmt.Fprintln(s.pipe, 0)
	s.pipe.Close()
	_ = s.process.Wait()
}

func shepherdCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "shepherd",
		Short:  "Kill a process group when standard input ends (used by lock and elect)",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
			group := 0
			for lines := bufio.NewScanner(cmd.InOrStdin()); lines.Scan(); {
				if _, err := fmt.Sscan(lines.Text(), &group); err != nil {
					group = 0
				}
			}
			if group > 1 {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
		},
	}
}
