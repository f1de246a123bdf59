package cli

import (
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, tc := range []struct {
		done, failures int
		want           string
	}{
		{0, 0, "0 of 100 worlds, 0.0/s"},
		{20, 0, "20 of 100 worlds, 2.0/s, 40s left"},
		{100, 3, "100 of 100 worlds, 10.0/s, 0s left, 3 with a violation"},
	} {
		if got := progressLine("worlds", tc.done, 100, tc.failures, 10*time.Second); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
