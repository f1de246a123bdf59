package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sanlock is a lockspace, used without the daemon. Each host has a delta lease in it.
type sanlock struct {
	binary, file string
	host         int // the last one that was used
}

var errNoSanlock = errors.New("sanlock is not installed: Debian's package sanlock has it")

// lockspace is how big one is, with room for 2,000 hosts and to spare.
const lockspace = 16 << 20

func newSanlock(ctx context.Context, dir string) (*sanlock, error) {
	binary, err := exec.LookPath("sanlock")
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/sanlock"); err != nil {
			return nil, errNoSanlock
		}
	}
	s := &sanlock{binary: binary, file: filepath.Join(dir, "lockspace")}
	if err := os.WriteFile(s.file, make([]byte, lockspace), 0o600); err != nil { // no holes
		return nil, err
	}
	_, err = spend(s.command(ctx, "init", 0, ""))
	return s, err
}

// command is one of the direct commands: acquire_id, renew_id, release_id, which its help
// does not mention, or init.
func (s *sanlock) command(ctx context.Context, action string, host int, name string) *exec.Cmd {
	args := []string{"direct", action, "-s", fmt.Sprintf("LS:%d:%s:0", host, s.file), "-o", "1"}
	if name != "" {
		args = append(args, "-e", name)
	}
	return exec.CommandContext(ctx, s.binary, args...)
}

// next is a host that never had a lease.
func (s *sanlock) next() int {
	s.host++
	return s.host
}

// spent is what a process took.
type spent struct{ wall, cpu time.Duration }

func spend(cmd *exec.Cmd) (spent, error) {
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return spent{}, fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	p := cmd.ProcessState
	return spent{time.Since(began), p.UserTime() + p.SystemTime()}, nil
}
