package file_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that nothing is left running, and no file outside of the tests' own.
func TestMain(m *testing.M) {
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(state)
		os.Exit(code)
	}))
}
