package cli

import (
	"errors"
	"testing"
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

// An error has no words of libraries.
func TestPlainWords(t *testing.T) {
	for said, want := range map[string]string{
		"no member answers at a: context deadline exceeded":                               "no member answers at a: no answer in time",
		"rpc error: code = Unavailable desc = no leader":                                  "no leader",
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded; look again": "no answer in time; look again",
		"gave up: context canceled":                                                       "gave up: stopped",
		"0 slots; give 1, or tenure.Shared":                                               "0 slots; give 1, or --shared",
	} {
		if got := plain(said); got != want {
			t.Errorf("%q is said as %q, want %q", said, got, want)
		}
	}
}
