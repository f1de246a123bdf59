package flease

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWordsOfTheKernel: the kernel's errors are in microseconds, and it has two ways to say that its
// clock is not synchronized.
func TestWordsOfTheKernel(t *testing.T) {
	for _, tt := range []struct {
		state int
		t     unix.Timex
		says  string // "" if it vouches for the clock
	}{
		{unix.TIME_OK, unix.Timex{Maxerror: 2000}, ""},
		{unix.TIME_INS, unix.Timex{Maxerror: 2000, Status: unix.STA_PLL}, ""}, // a leap second to come
		{unix.TIME_OK, unix.Timex{Maxerror: 2001}, "may be wrong by 2.001ms, and ε/2 is 2ms"},
		{unix.TIME_ERROR, unix.Timex{}, "is not synchronized"},
		{unix.TIME_OK, unix.Timex{Status: unix.STA_UNSYNC | unix.STA_PLL}, "is not synchronized"},
	} {
		err := judgeTimex(tt.state, &tt.t, 2*time.Millisecond)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("state %d, status %#x, an error of at most %d: %v, want %q", tt.state, tt.t.Status, tt.t.Maxerror, err, tt.says)
		}
	}
	if err := kernelClock(0); err != nil && strings.Contains(err.Error(), "does not say how wrong") {
		t.Skipf("the kernel is not asked here: %v", err)
	}
}
