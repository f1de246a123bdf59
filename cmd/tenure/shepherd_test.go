package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// sleeper starts a process in a group of its own.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// killed waits for the end of a process, and reports whether SIGKILL was it.
func killed(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	_ = cmd.Wait()
	return cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// awaitIgnored waits until a process ignores a signal.
func awaitIgnored(t *testing.T, id int, sig syscall.Signal) {
	t.Helper()
	for range 2000 {
		if ignored(t, id, sig) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the shepherd does not ignore %v: it would end with a job that is ended", sig)
}

// ignored reports whether a process ignores a signal.
func ignored(t *testing.T, id int, sig syscall.Signal) bool {
	t.Helper()
	var bits uint64
	if _, err := fmt.Sscanf(statusLine(t, fmt.Sprint(id), "SigIgn"), "%x", &bits); err != nil {
		t.Fatal(err)
	}
	return bits>>(sig-1)&1 == 1
}

// statusLine is what the kernel says of a process under a heading.
func statusLine(t *testing.T, id, heading string) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", id))
	if err != nil {
		t.Skipf("this kernel does not tell which signals a process ignores: %v", err)
	}
	_, text, _ := strings.Cut(string(status), heading+":")
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// A shepherd lives on through what ends or stops a job, and kills at the deadline while the
// guard does nothing.
func TestShepherdAtTheDeadline(t *testing.T) {
	s, err := startShepherd()
	if err != nil {
		t.Fatal(err)
	}
	command := sleeper(t)
	s.until(clock.After(clock.System, time.Hour))
	s.watch(command.Process.Pid)
	id := s.process.Pid
	if group, err := syscall.Getpgid(id); err != nil || group != id {
		t.Errorf("the shepherd is in group %d (%v), want one of its own: it would be stopped with us", group, err)
	}
	awaitIgnored(t, id, syscall.SIGTSTP) // the last: it has started
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP} {
		_ = syscall.Kill(id, sig)
	}
	s.until(clock.After(clock.System, 100*time.Millisecond))
	if !killed(t, command) {
		t.Error("the command outlives the deadline that the shepherd was told")
	}
	s.dismiss()
}

// A shepherd that was dismissed harms no process, and one whose guard has gone kills.
func TestShepherdAtTheEnd(t *testing.T) {
	for _, dismissed := range []bool{true, false} {
		s, err := startShepherd()
		if err != nil {
			t.Fatal(err)
		}
		command := sleeper(t)
		s.until(clock.After(clock.System, time.Hour))
		s.watch(command.Process.Pid)
		if !dismissed {
			s.pipe.Close() // as the kernel does for a process that has ended
			if !killed(t, command) {
				t.Error("the command outlives its guard")
			}
			continue
		}
		s.dismiss()
		if !(kernel{}).alive(command.Process.Pid) {
			t.Error("the shepherd was dismissed, and killed the command")
		}
	}
}

// A guard learns that it has no shepherd, and why.
func TestAShepherdThatCannotStart(t *testing.T) {
	out, err := exec.Command(os.Args[0], "unguarded").Output()
	if want := "true make a pipe to a second process, which watches over the command: "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("a guard that may open no pipe is told %q, %v; want no shepherd, and %q", out, err, want)
	}
	path := filepath.Join(t.TempDir(), "none")
	s := &shepherd{}
	if err := s.startAs(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) || s.pipe != nil || s.process != nil {
		t.Errorf("a shepherd of a program that is missing: %v, %+v; want no shepherd, and that %s is missing", err, s, path)
	}
}

// heardPipe is the guard's end of a pipe, of which all is heard but for so many first tries.
type heardPipe struct {
	fails  int
	heard  []string
	closed int
}

func (p *heardPipe) Write(b []byte) (int, error) {
	if p.fails--; p.fails >= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	p.heard = append(p.heard, string(b))
	return len(b), nil
}

func (p *heardPipe) Close() error                     { p.closed++; return nil }
func (p *heardPipe) SetWriteDeadline(time.Time) error { return nil }

// A shepherd is told of each change alone and once, and of a deadline that has hardly moved not at all. What it
// could not be told it is told the next time.
func TestEachOrderIsGivenOnce(t *testing.T) {
	pipe, ends := &heardPipe{}, 0
	s := &shepherd{pipe: pipe, gone: func() error { ends++; return nil }}
	second := machine.Mono(time.Second)
	s.until(5 * second)
	s.until(5 * second)
	s.until(5*second + machine.Mono(time.Millisecond)) // is as good as what it knows
	s.until(5*second - machine.Mono(time.Millisecond))
	s.watch(77)
	s.until(4 * second)
	s.until(6 * second)
	pipe.fails = 2
	s.until(7 * second)
	pipe.fails = 3
	s.until(8 * second) // is not heard
	s.until(7*second + machine.Mono(time.Millisecond))
	s.until(8 * second)
	s.dismiss()
	want := []string{"until 5000000000\n", "group 77\n", "until 4000000000\n", "until 6000000000\n", "until 7000000000\n", "until 8000000000\n", "desert 0\n"}
	if !slices.Equal(pipe.heard, want) || pipe.closed != 1 || ends != 1 {
		t.Errorf("a shepherd hears %q, its pipe is closed %d times, and its end awaited %d times; want %q, once and once", pipe.heard, pipe.closed, ends, want)
	}
}

// A shepherd that was stopped keeps no guard from going on without it.
func TestDismissesAStoppedShepherd(t *testing.T) {
	s, err := startShepherd()
	if err != nil {
		t.Fatal(err)
	}
	command := sleeper(t)
	s.watch(command.Process.Pid)
	_ = s.process.Signal(syscall.SIGSTOP)
	dismissed := make(chan struct{})
	go func() {
		defer close(dismissed)
		s.dismiss()
	}()
	select {
	case <-dismissed:
	case <-time.After(20 * time.Second):
		t.Error("a shepherd that is stopped keeps its guard, and the lease")
		_ = s.process.Signal(syscall.SIGCONT)
		<-dismissed
	}
	if !(kernel{}).alive(command.Process.Pid) {
		t.Error("the shepherd was dismissed, and killed the command")
	}
}

// A guard that was stopped before it could name the group that it has begun is killed, and the
// group too.
func TestKillStarting(t *testing.T) {
	starter := exec.Command(os.Args[0], "starter")
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	var group int
	if _, err := fmt.Fscan(out, &group); err != nil {
		t.Fatal(err)
	}
	_ = starter.Process.Signal(syscall.SIGSTOP)
	killStarting(starter.Process.Pid)
	if !killed(t, starter) {
		t.Error("the guard lives")
	}
	if !gone(group) {
		t.Error("what the guard had begun lives")
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}

// TestTheShepherdOfAStartingGuard: at the deadline of a guard that has told of no group yet, its
// shepherd kills all that it has begun, and the guard. It does not kill itself before.
func TestTheShepherdOfAStartingGuard(t *testing.T) {
	starter := exec.Command(os.Args[0], "starter", "guarded")
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	var group int
	if _, err := fmt.Fscan(out, &group); err != nil {
		t.Fatal(err)
	}
	if !killed(t, starter) {
		t.Error("the deadline has come, and the guard lives")
	}
	if !gone(group) {
		t.Error("the deadline has come, and what the guard had begun lives")
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}

// A shepherd that has ended hears nothing, and the guard knows.
func TestTellsNobody(t *testing.T) {
	s, err := startShepherd()
	if err != nil {
		t.Fatal(err)
	}
	s.until(clock.After(clock.System, time.Hour))
	told := s.told
	if told == 0 {
		t.Error("a shepherd that lives was not told")
	}
	_ = s.process.Kill()
	_ = s.gone()
	s.process = nil // which has no successor
	s.until(clock.After(clock.System, 2*time.Hour))
	if s.told != told {
		t.Error("a shepherd that has ended is taken for told")
	}
	s.pipe.Close()
}

// A shepherd that is killed alone has a successor from the next order on, which has its knowledge.
func TestAKilledShepherdIsReplaced(t *testing.T) {
	for _, last := range []string{"a later deadline", "the group"} {
		s, err := startShepherd()
		if err != nil {
			t.Fatal(err)
		}
		command := sleeper(t)
		end := func() {
			_ = s.process.Kill()
			_ = s.gone()
		}
		first := s.process.Pid
		s.until(clock.After(clock.System, 200*time.Millisecond))
		if last == "the group" {
			end()
		}
		s.watch(command.Process.Pid)
		if last == "a later deadline" {
			end()
			s.until(clock.After(clock.System, 210*time.Millisecond))
		}
		if s.process.Pid == first {
			t.Errorf("%s was told to a shepherd that had been killed, and there is no other", last)
		}
		if !killed(t, command) {
			t.Errorf("%s was told to the successor of a shepherd, and the command outlives the deadline", last)
		}
		s.dismiss()
	}
}

// The order that finds a shepherd killed is heard by its successor, and the first is reaped. To dismiss one
// that has ended needs no other.
func TestASuccessorHearsTheOrder(t *testing.T) {
	s, err := startShepherd()
	if err != nil {
		t.Fatal(err)
	}
	command := sleeper(t)
	s.until(clock.After(clock.System, time.Hour))
	s.watch(command.Process.Pid)
	first, pipe := s.process.Pid, s.pipe
	_ = s.process.Kill()
	for s.write("odd 0\n") == nil { // the kernel has not ended it yet
		time.Sleep(2 * time.Millisecond)
	}
	s.until(clock.After(clock.System, 100*time.Millisecond))
	if s.process.Pid == first {
		t.Error("a shepherd that was killed has no successor")
	}
	if !killed(t, command) {
		t.Error("the successor has not heard of the deadline by whose order it was started")
	}
	if err := pipe.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the pipe to a shepherd that was replaced is left open: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); syscall.Kill(first, 0) == nil; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a shepherd that was killed is never reaped")
		}
	}
	s.dismiss()
	last := s.process.Pid
	if s.dismiss(); s.process.Pid != last {
		t.Error("to dismiss a shepherd that has ended another was started")
		s.dismiss()
	}
}

// A guard that could start no successor tries again with the next order.
func TestTheNextOrderTriesAgain(t *testing.T) {
	s, err := startShepherd()
	if err != nil {
		t.Fatal(err)
	}
	command := sleeper(t)
	s.until(clock.After(clock.System, time.Hour))
	s.watch(command.Process.Pid)
	first := s.process.Pid
	_ = s.process.Kill()
	_ = s.pipe.Close() // as it is where no other could be started
	if s.until(clock.After(clock.System, 100*time.Millisecond)); s.process.Pid == first {
		t.Error("a shepherd that could not be replaced is not replaced by the next order")
	}
	if !killed(t, command) {
		t.Error("the command outlives the deadline for which a second successor was started")
	}
	s.dismiss()
}

// A guard that was not stopped for a group of its own is killed alone: its group may be that of the shell.
func TestTheGroupOfAStartingGuardIsSpared(t *testing.T) {
	guard := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := guard.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	beside := exec.Command("sleep", "60")
	beside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: guard.Process.Pid}
	if err := beside.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	killStarting(guard.Process.Pid)
	if !killed(t, guard) {
		t.Error("the guard lives")
	}
	_ = beside.Process.Signal(syscall.SIGTERM) // which ends it, unless it was killed
	if killed(t, beside) {
		t.Error("a process of the guard's own group was killed: that may be a shell's job")
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// A line that makes no sense is no order, and nor is a group that would be all processes.
func TestObeysOrdersOnly(t *testing.T) {
	for orders, want := range map[string]int{
		"group 7\nodd\nuntil\nuntil x\ngroup\n":        7,
		"group 7\ngroup 1\ngroup 0\ngroup -1\nodd 9\n": 7,
		"group 7\ngroup 8\n":                           8,
		"group 7\ndesert 0\n":                          0,
		"group 1\n":                                    0,
		"until 1000000000000\n":                        0, // its guard has ended before there was a group
	} {
		kills := []int{0}
		obey(strings.NewReader(orders), func() bool { return false }, &clock.Fake{}, func(group int) { kills = append(kills, group) })
		if got := kills[len(kills)-1]; got != want || len(kills) > 2 {
			t.Errorf("after %q, when the guard has ended, it kills %v, want group %d", orders, kills[1:], want)
		}
	}
}

// A successor hears of the deadline and of the group together, and of neither before there is one.
func TestWhatASuccessorKnows(t *testing.T) {
	for want, s := range map[string]shepherd{
		"":                   {},
		"until 5\n":          {told: 5},
		"group 7\n":          {group: 7},
		"until 5\ngroup 7\n": {told: 5, group: 7},
	} {
		if got := s.known(); got != want {
			t.Errorf("the successor of one that was told until %d, group %d, hears %q, want %q", s.told, s.group, got, want)
		}
	}
}

// gone reports whether all of a group end soon.
func gone(group int) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !(kernel{}).alive(group) {
			return true
		}
	}
	return false
}

// A signal is for all of the group.
func TestKillsTheWholeGroup(t *testing.T) {
	parent := exec.Command("sh", "-c", "sleep 60 & echo started; wait")
	parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var started string
	if _, err := fmt.Fscan(out, &started); err != nil {
		t.Fatal(err)
	}
	kernel{}.kill(parent.Process.Pid, syscall.SIGKILL)
	_ = parent.Wait()
	if !gone(parent.Process.Pid) {
		t.Error("a process of the group outlives the kill")
		_ = syscall.Kill(-parent.Process.Pid, syscall.SIGKILL)
	}
}

// leaving is a group that is gone after so many looks.
type leaving struct {
	kernel
	looks *int
}

func (l leaving) alive(int) bool { *l.looks--; return *l.looks > 0 }

// TestShepherdOutlivesTheGroup: the shepherd's end is the end of the holder for others on the machine, so it
// comes after that of all that it has killed.
func TestShepherdOutlivesTheGroup(t *testing.T) {
	left := 5
	awaitEnd(leaving{looks: &left}, 7)
	if left != 0 {
		t.Errorf("the shepherd goes while its group is there: %d looks are left, want 0", left)
	}
}

// The end of a group is noticed within a tenth of a second, however long it takes.
func TestTheEndOfAGroupIsNoticedSoon(t *testing.T) {
	for tenth := range 10 {
		synctest.Test(t, func(t *testing.T) {
			begun, lives := time.Now(), time.Hour+time.Duration(tenth)*100*time.Millisecond
			awaitEnd(&stuck{begun.Add(lives)}, 7)
			if late := time.Since(begun) - lives; late > 100*time.Millisecond {
				t.Errorf("a group ends after %v, and this is noticed %v later", lives, late)
			}
		})
	}
}

// A shepherd has our name for people who list processes, and says its errors where we do. That another takes its place is said there, too.
func TestAShepherdIsKnownAsOurs(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	stderr := os.Stderr
	os.Stderr = said
	defer func() { os.Stderr = stderr }()
	s := &shepherd{}
	if err := s.startAs(link); err != nil {
		t.Fatal(err)
	}
	defer s.dismiss()
	proc := fmt.Sprintf("/proc/%d", s.process.Pid)
	line, err := os.ReadFile(proc + "/cmdline")
	for end := time.Now().Add(20 * time.Second); err == nil && len(line) == 0 && time.Now().Before(end); { // exec is under way
		line, err = os.ReadFile(proc + "/cmdline")
	}
	if err == nil { // Linux
		if want := fmt.Sprintf("%s\x00shepherd\x00%d\x00", os.Args[0], os.Getpid()); string(line) != want {
			t.Errorf("the command line of a shepherd is %q, want %q", line, want)
		}
		if errs, err := os.Readlink(proc + "/fd/2"); err != nil || errs != said.Name() {
			t.Errorf("a shepherd says its errors in %q, %v; want %q", errs, err, said.Name())
		}
	}
	s.watch(4711)
	_ = s.process.Kill()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		s.until(clock.After(clock.System, time.Hour))
		s.told = 0 // or it is not told again
		words, err := os.ReadFile(said.Name())
		if err != nil || string(words) == "tenure: the process that watches over the command was killed; another one does so now\n" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a shepherd was killed and replaced, and said is %q", words)
		}
	}
}

// slain is a process group that takes a minute to end when it is killed, as one does that waits for a disk.
type slain struct {
	kills []string
	ended time.Time
}

func (s *slain) alive(int) bool { return time.Now().Before(s.ended) }

func (s *slain) kill(group int, sig syscall.Signal) {
	s.kills = append(s.kills, fmt.Sprint(group, " ", sig))
	s.ended = time.Now().Add(time.Minute)
}

// A shepherd whose guard has ended kills the group, and stays until none of it is left. It kills a guard that has told of no group
// when its time has come, and has no group to wait for.
func TestAShepherdStaysWithTheKilled(t *testing.T) {
	for orders, want := range map[string]struct {
		kills    string
		starting int
		took     time.Duration
	}{
		"group 100000\n":                 {"100000 killed", 0, time.Minute},
		"group 7\nuntil 1000000000000\n": {"7 killed", 0, time.Minute},
		"group 7\ndesert 0\n":            {"", 0, 0},
		"":                               {"", 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, begun, starting := &slain{}, time.Now(), 0
			herd(strings.NewReader(orders), func() bool { return false }, clock.NewSimulated(0), p, func() { starting++ })
			if took := time.Since(begun).Round(time.Second); strings.Join(p.kills, ", ") != want.kills || starting != want.starting || took != want.took {
				t.Errorf("after %q and the end of its guard, a shepherd kills %q, the guard %d times, and ends after %v; want %+v", orders, p.kills, starting, took, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		p, starting, ended := &slain{}, 0, make(chan struct{})
		go func() {
			defer close(ended)
			herd(in, func() bool { return false }, clock.NewSimulated(0), p, func() { starting++ })
		}()
		fmt.Fprintf(out, "until %d\n", time.Second)
		time.Sleep(time.Minute)
		out.Close()
		if <-ended; starting != 1 || len(p.kills) > 0 {
			t.Errorf("the time of a guard that has told of no group has come: it is killed %d times, and groups by %q; want once, and none", starting, p.kills)
		}
	})
}
