package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A shepherd whose guard has ended before the shepherd looked is adopted, by the first process
// of the machine as a rule. That one is not its guard.
func TestAnAdoptedShepherdSparesWhoAdoptedIt(t *testing.T) {
	out, err := exec.Command(os.Args[0], "adopter").CombinedOutput()
	switch said := string(out); {
	case strings.Contains(said, "cannot adopt"):
		t.Skip(said)
	case err != nil || !strings.Contains(said, "lives on"):
		t.Errorf("the shepherd takes the process that adopted it for its guard, and kills it: %v\n%s", err, said)
	}
}

func init() {
	if len(os.Args) == 2 && os.Args[1] == "adopter" {
		if err := adopt(); err != nil {
			fmt.Println("cannot adopt:", err)
			os.Exit(1)
		}
		fmt.Println("lives on")
		os.Exit(0)
	}
}

// adopt plays the first process of a machine to a shepherd that starts when its guard has ended
// already, and is told that the deadline has come.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	begin, gate, err := os.Pipe()
	if err != nil {
		return err
	}
	orders, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	guard := exec.Command("/bin/sh", "-c", `/bin/sh -c 'read go <&3; exec "$0" shepherd "$1" <&4' "$0" $$ & exit 0`, os.Args[0])
	guard.ExtraFiles = []*os.File{begin, orders}
	guard.Stdout, guard.Stderr = os.Stdout, os.Stderr
	if err := guard.Run(); err != nil {
		return err
	}
	orders.Close()
	adopted := 0
	for p := range processTable() {
		if p.parent == os.Getpid() {
			adopted++
		}
	}
	if adopted != 1 { // else it could take another process for its guard
		return fmt.Errorf("%d processes are ours", adopted)
	}
	fmt.Fprintln(gate, "go")
	// The deadline counts once no order waits, and so it is told many times, each time when the
	// shepherd has read the one before.
	for range 500 {
		if _, err := fmt.Fprintln(pipe, orderUntil, 1); err != nil {
			return err
		}
		for {
			unread, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
			if err != nil {
				return err
			}
			if unread == 0 {
				break
			}
			runtime.Gosched()
		}
	}
	pipe.Close()
	var status unix.WaitStatus
	if _, err := unix.Wait4(-1, &status, 0, nil); err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("the shepherd ended with %v", status)
	}
	return nil
}
