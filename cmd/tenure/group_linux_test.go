package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// diesWithUs reports whether a process with these attributes is killed when we end.
func diesWithUs(a *syscall.SysProcAttr) bool { return a.Pdeathsig == syscall.SIGKILL }

// zombie waits until a process has ended that is not reaped.
func zombie(t *testing.T, id int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d has not ended: %s", id, stat)
		}
	}
}

// A group has ended when nothing is left of it but processes that were not reaped.
func TestWhatWasNotReapedIsNotAlive(t *testing.T) {
	cmd := sleeper(t)
	if !(kernel{}).alive(cmd.Process.Pid) {
		t.Error("a process that sleeps is not alive")
	}
	_ = cmd.Process.Kill()
	zombie(t, cmd.Process.Pid)
	if (kernel{}).alive(cmd.Process.Pid) {
		t.Error("a group of which nobody is left counts as alive: the lease is kept for ever where nobody reaps")
	}
}

// A process may have any name, and is known by its numbers all the same.
func TestProcessesOfAnyName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	odd := filepath.Join(t.TempDir(), "a) Z 1 1")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: odd, Args: []string{"sleep", "60"}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	id := cmd.Process.Pid
	for p := range processTable() {
		if p.id == id && (p.parent != os.Getpid() || p.group != id || p.state == "Z") {
			t.Errorf("a process that is called %q is taken for %+v, want one of ours in its own group", filepath.Base(odd), p)
		}
	}
	if !(kernel{}).alive(id) {
		t.Errorf("a process that is called %q is not alive", filepath.Base(odd))
	}
}

// TestAnotherUsersProcessesAreAlive: a command that became another user's (setuid) is not
// taken for one that has ended, though we may send it nothing.
func TestAnotherUsersProcessesAreAlive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	ours := sleeper(t).Process.Pid
	alive, gone := make(chan bool, 1), make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its user
		const nobody, as = 65534, ^uintptr(0)
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, as); err != 0 {
			t.Errorf("become another user: %v", err)
		}
		alive <- kernel{}.alive(ours)
		gone <- !kernel{}.alive(1<<22 + 1) // the kernel has no process of this number
	}()
	if !<-alive {
		t.Error("a group of another user's processes counts as ended: the lease is released, and they go on")
	}
	if !<-gone {
		t.Error("a group that is not there counts as alive")
	}
}

// A group of which /proc shows nothing, as where it hides other users' processes, is alive as long as
// the kernel knows it. A group of which /proc shows only ended processes has ended.
func TestWhatIsNotShownIsAlive(t *testing.T) {
	group := sleeper(t).Process.Pid
	const nobody = 1<<22 + 1 // the kernel has no process of this number
	running, ended, other := process{group: group, state: "S"}, process{group: group, state: "Z"}, process{group: group + 1, state: "Z"}
	for name, tt := range map[string]struct {
		group int
		shown []process
		alive bool
	}{
		"nothing is shown":               {group, nil, true},
		"others are shown":               {group, []process{other}, true},
		"one is shown":                   {group, []process{running}, true},
		"one that has ended is shown":    {group, []process{ended}, false},
		"one of two has ended":           {group, []process{ended, running}, true},
		"one that is removed is shown":   {group, []process{{group: group, state: "X"}}, false},
		"the kernel knows nothing of it": {nobody, []process{{group: nobody, state: "S"}}, false},
		"it is not there and not shown":  {nobody, nil, false},
	} {
		if got := aliveIn(slices.Values(tt.shown), tt.group); got != tt.alive {
			t.Errorf("%s: the group is alive: %v, want %v", name, got, tt.alive)
		}
	}
	last := sleeper(t)
	if aliveIn(func(func(process) bool) { _ = last.Process.Kill(); _ = last.Wait() }, last.Process.Pid) {
		t.Error("the last of a group was reaped while the table was read, and the group is alive")
	}
}

// To hand the terminal on makes no signal ignored for good: the next command would ignore it, too.
func TestTheTerminalIsHandedOnWithoutATrace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	masked := statusLine(t, "thread-self", "SigBlk")
	signal.Reset(syscall.SIGTTOU)
	before := ignored(t, os.Getpid(), syscall.SIGTTOU)
	during, mask := false, ""
	unstopped(func() { during, mask = true, statusLine(t, "thread-self", "SigBlk") })
	var blocked uint64
	if _, err := fmt.Sscanf(mask, "%x", &blocked); err != nil || !during || blocked>>(syscall.SIGTTOU-1)&1 == 0 {
		t.Errorf("while the terminal is handed on the mask of signals is %s, %v: SIGTTOU would stop this process", mask, err)
	}
	if after := statusLine(t, "thread-self", "SigBlk"); after != masked {
		t.Errorf("the terminal was handed on, and the mask of signals is %s, want %s as before: a thread would hear none", after, masked)
	}
	if passTerminal(foreground()); ignored(t, os.Getpid(), syscall.SIGTTOU) != before {
		t.Errorf("SIGTTOU was ignored: %v, and the terminal was handed on; now it is the other way", before)
	}
}

// Without a terminal no group has it, and none is 0: so is the own one in a PID namespace that was entered
// with the group of a process outside.
func TestNoTerminalHasNoGroup(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if group := foregroundOf(int(r.Fd())); group >= 0 {
		t.Errorf("the group %d has the terminal on a pipe", group)
	}
}
