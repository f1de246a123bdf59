// Package bubble plays tests in bubbles of testing/synctest, and tells in words what synctest
// answers with a panic: a test that waits for ever, or that leaves goroutines behind. So a rule
// about something that ends has a judgement of the test's own.
package bubble

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test for a test whose goroutines have to end.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if why := stuck(t, f); why != "" {
		t.Fatalf("something waits for ever, or was left running: %s", why)
	}
}

// stuck plays f, and returns why the bubble did not end, or "".
func stuck(t *testing.T, f func(t *testing.T)) (why string) {
	defer func() {
		p := recover()
		if why = fmt.Sprint(p); p == nil {
			why = ""
		} else if !strings.HasPrefix(why, "deadlock: ") {
			panic(p)
		}
	}()
	synctest.Test(t, f)
	return ""
}
