package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// fading is a lease whose deadline is suddenly nearer, as after a suspend, which
// time.Time does not count.
type fading struct {
	tenure.Lease
	asked int
	near  time.Time
}

func (f *fading) Name() string          { return "fading" }
func (f *fading) Token() uint64         { return 1 }
func (f *fading) Holder() string        { return "test" }
func (f *fading) Done() <-chan struct{} { return nil }
func (f *fading) Deadline() time.Time {
	if f.asked++; f.asked == 1 {
		return time.Now().Add(time.Hour)
	}
	return f.near
}

// TestStopsAfterSuspend holds also when the events are not read.
func TestStopsAfterSuspend(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan int, 1)
	go func() {
		_ = cmd.Wait()
		exited <- exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus))
	}()
	unread, w := io.Pipe()
	defer unread.Close()
	events := newEvents(w)
	for range 1000 {
		events.print(event{Event: "renewed"})
	}
	g := guard{lease: &fading{near: time.Now().Add(500 * time.Millisecond)}, clock: clock.System, ttl: 3 * time.Second, events: &events}
	begun := time.Now()
	code, stopped := g.watch(&group{id: cmd.Process.Pid, processes: kernel{}, shepherd: unheard(t), clock: clock.System, exited: exited})
	if code != cli.ExitSignal+int(syscall.SIGTERM) || stopped == "" || time.Since(begun) > 5*time.Second {
		t.Errorf("exit code %d, stopped for %q after %v; want %d, and why, before the deadline", code, stopped, time.Since(begun), cli.ExitSignal+int(syscall.SIGTERM))
	}
}

// unheard is a shepherd that does nothing.
func unheard(t *testing.T) *shepherd {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return &shepherd{pipe: null, gone: func() error { return nil }}
}
