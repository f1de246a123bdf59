package bubble

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStuck: a test that waits for ever, and one that leaves a goroutine behind, are told in words.
// Time passes for all others, and they end.
func TestStuck(t *testing.T) {
	for name, tt := range map[string]struct {
		body func()
		want string
	}{
		"it ends":                 {func() { time.Sleep(time.Hour) }, ""},
		"it waits for ever":       {func() { <-make(chan int) }, "all goroutines in bubble are blocked"},
		"a goroutine is left":     {func() { go func() { <-make(chan int) }(); synctest.Wait() }, "blocked goroutines remain"},
		"a goroutine is awaited":  {func() { go time.Sleep(time.Hour); time.Sleep(2 * time.Hour) }, ""},
		"a goroutine ends itself": {func() { go func() {}() }, ""},
	} {
		why := stuck(t, func(*testing.T) { tt.body() })
		if (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
			t.Errorf("%s: told %q, want %q", name, why, tt.want)
		}
	}
}
