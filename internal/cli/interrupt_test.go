package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// An interrupt and SIGTERM end what waits, and are known as the cause of it.
func TestSignalsEndAContext(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		survived := make(chan os.Signal, 1) // this process
		signal.Notify(survived, sig)
		ctx, stop := UntilSignal(t.Context())
		if ctx.Err() != nil {
			t.Fatalf("before %v: %v", sig, ctx.Err())
		}
		_ = syscall.Kill(os.Getpid(), sig)
		<-survived
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		if cause := context.Cause(ctx); cause != error(Interrupt(sig)) {
			t.Errorf("after %v the cause is %v", sig, cause)
		} else {
			wantExit(t, Interrupted(cause), ExitSignal+int(sig))
		}
		stop()
		signal.Stop(survived)
	}
	ctx, stop := UntilSignal(t.Context())
	if stop(); ctx.Err() == nil {
		t.Error("what was stopped waits on")
	}
}

// TestNextSignalEndsTheProcess: a process that does not come to its end after one signal is ended by
// the next.
func TestNextSignalEndsTheProcess(t *testing.T) {
	if os.Getenv("TENURE_TEST_SIGNALS") != "" {
		ctx, _ := UntilSignal(context.Background())
		fmt.Println("waits")
		<-ctx.Done()
		fmt.Println("was interrupted")
		time.Sleep(10 * time.Second)
		os.Exit(0)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestNextSignalEndsTheProcess$")
	child.Env = append(os.Environ(), "TENURE_TEST_SIGNALS=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); line == "waits" || line == "was interrupted" {
			_ = child.Process.Signal(syscall.SIGTERM)
		}
	}
	_ = child.Wait()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("after two signals the process ended with %v, want %v", child.ProcessState, syscall.SIGTERM)
	}
}

// TestSignalsAreGivenBack: when nothing waits any more, a signal ends the process as it does by default.
func TestSignalsAreGivenBack(t *testing.T) {
	if os.Getenv("TENURE_TEST_SIGNALS_BACK") != "" {
		_, stop := UntilSignal(context.Background())
		stop()
		for range 1000 { // they are given back within a moment
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-time.After(10 * time.Millisecond)
		}
		os.Exit(0)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestSignalsAreGivenBack$")
	child.Env = append(os.Environ(), "TENURE_TEST_SIGNALS_BACK=1")
	_ = child.Run()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("nothing waits for a signal, and one after the other ended the process with %v, want %v", child.ProcessState, syscall.SIGTERM)
	}
}

// An error that a signal led to has a shell's exit code.
func TestInterrupted(t *testing.T) {
	odd := errors.New("odd")
	ended, end := context.WithCancelCause(t.Context())
	end(Interrupt(syscall.SIGTERM))
	wantExit(t, Interrupted(fmt.Errorf("stopped: %w", Interrupt(syscall.SIGINT))), 130)
	wantExit(t, Interrupted(context.Cause(ended)), 143)
	if err := Interrupted(odd); err != odd {
		t.Errorf("what was not interrupted: %v, want %v", err, odd)
	}
}

func wantExit(t *testing.T, err error, code int) {
	t.Helper()
	var exit ExitError
	if !errors.As(err, &exit) || exit.Code != code {
		t.Errorf("got exit code %d of %v, want %d", exit.Code, err, code)
	}
}
