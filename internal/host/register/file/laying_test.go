package file

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// brokenDevice is a device that cannot be written.
type brokenDevice struct {
	file
	err error
}

func (d brokenDevice) WriteAt([]byte, int64) (int, error) { return 0, d.err }

// TestInitOfABrokenDevice: the error of a device that cannot be written says what to do, if that is known.
func TestInitOfABrokenDevice(t *testing.T) {
	for err, hint := range map[error]string{unix.ENOSPC: ": make room on that filesystem", unix.EFBIG: ": raise the limit of the size of files (ulimit -f)", register.ErrInjected: ""} {
		at := site{header: storeHeader{areas: 2, slots: 8}, device: brokenDevice{err: err}}
		if got := at.init("/dev/x"); !errors.Is(got, err) || !strings.HasSuffix(got.Error(), hint) || got.Error() != err.Error()+hint {
			t.Errorf("a device that fails with %v: got %v, want the hint %q", err, got, hint)
		}
	}
}

// TestWhatAnAreaIs: a place of its own, as large as its slots need. No area is taken for another, or for one that was
// cut short.
func TestWhatAnAreaIs(t *testing.T) {
	d := &device{header: storeHeader{areas: 2, slots: 9}}
	seen := map[[2]uint64]bool{}
	for i := range 2 {
		st, err := (&area{dev: d, index: i}).stat()
		if want := int64(2+2*9) * block; err != nil || st.size != want || !st.plain {
			t.Errorf("area %d of nine slots has %d bytes, plain %v, %v; want %d, as a file has", i, st.size, st.plain, err, want)
		}
		if seen[st.ident] {
			t.Errorf("area %d is taken for another", i)
		}
		seen[st.ident] = true
	}
}
