package abs

import "testing"

func TestAbs(t *testing.T) {
	if got := Abs(-1); got != 1 {
		t.Errorf("got %d", got)
	}
}
