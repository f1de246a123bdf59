package file_test

import (
	"os"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register/filetest"
)

// TestMain makes sure that nothing is left running, and no file outside of the tests' own.
func TestMain(m *testing.M) {
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	filetest.Main(m, func() { os.RemoveAll(state) })
}
