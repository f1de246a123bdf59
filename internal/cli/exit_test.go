package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// Scripts go by these.
func TestExitCodesStay(t *testing.T) {
	for want, code := range map[int]int{
		1: ExitFailure, 64: ExitUsage, 69: ExitUnavailable, 75: ExitNotAcquired, 76: ExitLost, 126: ExitCannotRun, 127: ExitNotFound, 128: ExitSignal,
	} {
		if code != want {
			t.Errorf("the exit code %d is %d now", want, code)
		}
	}
	odd := errors.New("odd")
	if err := (Exit(76, odd)); err.Error() != "odd" || !errors.Is(err, odd) {
		t.Errorf("an error with an exit code says %q", err)
	}
	if err := (Exit(3, nil)); err.Error() != "exit code 3" || errors.Unwrap(err) != nil {
		t.Errorf("an exit code without an error says %q", err)
	}
}

// A program ends with the exit code of its error, whatever that is wrapped in, and says the error once, on
// standard error.
func TestRun(t *testing.T) {
	odd := errors.New("odd: context deadline exceeded")
	for name, tt := range map[string]struct {
		err  error
		code int
		says string
	}{
		"success":                       {nil, 0, ""},
		"an error":                      {odd, ExitFailure, "prog: odd: no answer in time\n"},
		"an error with a code":          {Exit(ExitLost, odd), ExitLost, "prog: odd: no answer in time\n"},
		"one in another":                {fmt.Errorf("line 2: %w", Exit(ExitUnavailable, odd)), ExitUnavailable, "prog: line 2: odd: no answer in time\n"},
		"the code of a command":         {Exit(3, nil), 3, ""},
		"one of several":                {errors.Join(odd, Exit(ExitLost, errors.New("lost"))), ExitLost, "prog: odd: no answer in time\nlost\n"},
		"a command that a signal ended": {Exit(ExitSignal+9, nil), 137, ""},
	} {
		said, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		stderr := os.Stderr
		os.Stderr = said
		code := Run(&cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return tt.err }}, nil)
		os.Stderr = stderr
		said.Close()
		if says, err := os.ReadFile(said.Name()); err != nil || code != tt.code || string(says) != tt.says {
			t.Errorf("%s: it ends with %d, and says %q, %v; want %d and %q", name, code, says, err, tt.code, tt.says)
		}
	}
}

// failing is an output that takes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A command whose output was lost fails, though it has not looked itself. A reader that went away has what it
// wanted, and an error of the command's own says more.
func TestALostOutputIsAFailure(t *testing.T) {
	odd := errors.New("odd")
	for name, tt := range map[string]struct {
		lost, err error
		code      int
		says      string
	}{
		"written":        {nil, nil, 0, ""},
		"lost":           {syscall.ENOSPC, nil, ExitFailure, "prog: the output was not written: no space left on device\n"},
		"not read":       {syscall.EPIPE, nil, 0, ""},
		"lost, and more": {syscall.ENOSPC, Exit(ExitLost, odd), ExitLost, "prog: odd\n"},
	} {
		said, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "one")
			fmt.Fprintln(cmd.OutOrStdout(), "two")
			return tt.err
		}}
		cmd.SetOut(io.Discard)
		if tt.lost != nil {
			cmd.SetOut(failing{tt.lost})
		}
		stderr := os.Stderr
		os.Stderr = said
		code := Run(cmd, nil)
		os.Stderr = stderr
		said.Close()
		if says, err := os.ReadFile(said.Name()); err != nil || code != tt.code || string(says) != tt.says {
			t.Errorf("%s: it ends with %d, and says %q, %v; want %d and %q", name, code, says, err, tt.code, tt.says)
		}
	}
}

// Of several errors by which output was lost the first counts: what comes behind it is lost in any case.
func TestTheFirstLossCounts(t *testing.T) {
	for _, tt := range []struct {
		losses []error
		says   string
	}{
		{[]error{syscall.ENOSPC, syscall.EPIPE}, "the output was not written: no space left on device"},
		{[]error{syscall.EPIPE, syscall.ENOSPC}, "<nil>"}, {[]error{nil, syscall.ENOSPC, nil}, "the output was not written: no space left on device"},
	} {
		var o watchedOutput
		for _, loss := range tt.losses {
			o.to = failing{loss}
			if n, err := o.Write([]byte("x")); err != loss || n != 0 {
				t.Errorf("an output that fails with %v takes %d bytes, %v", loss, n, err)
			}
		}
		if got := fmt.Sprint(o.trouble()); got != tt.says {
			t.Errorf("after %v the trouble is %q, want %q", tt.losses, got, tt.says)
		}
	}
}

// An error has no words of libraries.
func TestPlainWords(t *testing.T) {
	for said, want := range map[string]string{
		"no member answers at a: context deadline exceeded":                               "no member answers at a: no answer in time",
		"rpc error: code = Unavailable desc = no leader":                                  "no leader",
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded; look again": "no answer in time; look again",
		"no peer listens: dial unix /s: i/o timeout":                                      "no peer listens: dial unix /s: no answer in time",
		"gave up: context canceled":                                                       "gave up: stopped",
		"0 slots; give 1, or tenure.Shared":                                               "0 slots; give 1, or --shared",
	} {
		if got := plain(said); got != want {
			t.Errorf("%q is said as %q, want %q", said, got, want)
		}
	}
}
