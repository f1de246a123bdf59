package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/engine/file"
	"github.com/tenure-lease/tenure/fence"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

const (
	term  = time.Second
	delay = 5 * time.Millisecond

	dirVariable = "CACHE_TEST_DIR" // makes the test's program a client that is stopped
)

var spec = func() (s engine.Spec) {
	s.TTL, s.Delay, s.SingleHost = term, delay, true
	return s
}()

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		if err := sleeper(dir); err != nil {
			fmt.Println("error", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func add(line string) func([]byte) []byte {
	return func(text []byte) []byte { return append(text, line+"\n"...) }
}

// sleeper has one edit saved, and stops with another that is not.
func sleeper(dir string) error {
	store, err := openStore(context.Background(), dir, spec)
	if err != nil {
		return err
	}
	d, err := Open(context.Background(), store, filepath.Join(dir, "text"), dir)
	if err != nil {
		return err
	}
	if err := d.Edit(add("saved")); err != nil {
		return err
	}
	if err := d.save(); err != nil {
		return err
	}
	d.saving.Lock() // no renewal saves before the process stands still
	if err := d.Edit(add("unsaved")); err != nil {
		return err
	}
	fmt.Println("stopping")
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	d.saving.Unlock()
	<-d.Done()
	err = d.Close()
	var loss LossError
	if !errors.As(err, &loss) || !errors.Is(err, fence.ErrStale) || !errors.Is(err, tenure.ErrLost) {
		return fmt.Errorf("closed with %v, want a loss because of a stale token", err)
	}
	fmt.Println("lost", loss.Edits, loss.Rescued)
	return nil
}

// TestFalselySuspected: a client that was stopped for too long cannot write over what
// another did, and says what is lost.
func TestFalselySuspected(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirVariable+"="+dir)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "stopping\n" {
		t.Fatalf("the other client says %q, %v", line, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := openStore(ctx, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "text")
	d, err := Open(ctx, store, path, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(d.Text()); got != "saved\n" {
		t.Errorf("the next client opens %q", got)
	}
	if err := d.Edit(add("by another")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	var edits int
	var rescued string
	if n, _ := fmt.Sscanf(line, "lost %d %s", &edits, &rescued); n != 2 || edits != 1 {
		t.Fatalf("the client that was stopped says %q, %v, want one edit lost", line, err)
	}
	for name, want := range map[string]string{path: "saved\nby another\n", rescued: "saved\nunsaved\n"} {
		if got, err := os.ReadFile(name); string(got) != want || err != nil {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
}

// client opens a document in a directory, with leases in memory.
func client(t *testing.T, leases *register.Memory, dir string) (*Document, *register.Faults) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	faults := &register.Faults{Store: leases.Open()}
	t.Cleanup(faults.Heal)
	d, err := Open(t.Context(), faults, filepath.Join(dir, "text"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d, faults
}

func newLeases() *register.Memory {
	return register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: term / 2, Delay: delay, Drift: 1000})
}

// TestRenewalsSave: nobody says save, and it is saved within a few renewals.
func TestRenewalsSave(t *testing.T) {
	dir := t.TempDir()
	d, _ := client(t, newLeases(), dir)
	var want strings.Builder
	for i := range 3 {
		fmt.Fprintln(&want, i)
		if err := d.Edit(add(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(delay) {
			got, err := os.ReadFile(filepath.Join(dir, "text"))
			if string(got) == want.String() {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the file has %q, %v after a minute, want %q", got, err, want.String())
			}
		}
	}
	if err := d.Edit(add("last")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Edit(add("too late")); err == nil {
		t.Error("an edit after Close succeeds")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "text")); string(got) != want.String()+"last\n" || err != nil {
		t.Errorf("after Close the file has %q, %v", got, err)
	}
}

// TestNoRenewalWithoutSaving: a client that cannot save does not keep the file.
func TestNoRenewalWithoutSaving(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	leases := newLeases()
	d, _ := client(t, leases, dir)
	if err := os.Rename(dir, dir+" is away"); err != nil {
		t.Fatal(err)
	}
	// While there is nothing to save, the lease is kept.
	for renewed := d.lease.Deadline().Add(term / 10); d.lease.Deadline().Before(renewed); time.Sleep(delay) {
		if err := d.lease.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Edit(add("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
	case <-time.After(time.Minute):
		t.Fatal("the lease is renewed though nothing can be saved")
	}
	err := d.Close()
	var loss LossError
	if !errors.As(err, &loss) || loss.Edits != 1 || errors.Is(err, fence.ErrStale) {
		t.Fatalf("closed with %v, want one edit lost", err)
	}
	if got, err := os.ReadFile(loss.Rescued); string(got) != "x\n" || err != nil {
		t.Errorf("%q was put elsewhere, %v", got, err)
	}
	if err := os.Rename(dir+" is away", dir); err != nil {
		t.Fatal(err)
	}
	next, _ := client(t, leases, dir)
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestLateButAlone: the lease was lost, but nobody else has opened the file.
func TestLateButAlone(t *testing.T) {
	dir := t.TempDir()
	d, faults := client(t, newLeases(), dir)
	faults.Hang()
	if err := d.Edit(add("x")); err != nil {
		t.Fatal(err)
	}
	<-d.Done()
	if err := d.Edit(add("y")); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("an edit after the loss: %v", err)
	}
	faults.Heal()
	if err := d.Close(); !errors.Is(err, tenure.ErrLost) || errors.As(err, new(LossError)) {
		t.Errorf("closed with %v, want the lease lost, and no edits", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "text")); string(got) != "x\n" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestCarrier: a carrier that fails holds back Puts, and nothing else.
func TestCarrier(t *testing.T) {
	why := errors.New("too heavy")
	c := carrier{newLeases().Open(), func() error { return why }}
	id := machine.ID{7}
	ops := []register.Op{
		{Name: "x", Writer: id, Op: quorumregister.Put{Version: machine.Version{Seq: 1, Writer: id}}},
		{Name: "x", Writer: id, Op: quorumregister.PutNote{Writer: id, Seq: 1}},
		{Name: "x", Writer: id, Op: quorumregister.Query{}},
	}
	replies := c.Do(ops)
	state, ok := replies[2].Value.(quorumregister.State)
	if replies[0].Err != why || replies[1].Err != nil || !ok || state.Version.Seq != 0 || len(state.Notes) != 1 {
		t.Errorf("replies %+v, want the note and not the data", replies)
	}
}
