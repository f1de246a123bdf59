package fence

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register/filetest"
)

// TestFileLeavesNothingOpen: a service that checks tokens for months does not run out of descriptors.
func TestFileLeavesNothingOpen(t *testing.T) {
	f := File{filepath.Join(t.TempDir(), "token")}
	token := uint64(100)
	check := func(token uint64, want error) {
		if err := f.Check(token); !errors.Is(err, want) {
			t.Errorf("token %d: %v, want %v", token, err, want)
		}
	}
	filetest.Descriptors(t, "to check a newer token", func() { token++; check(token, nil) })
	filetest.Descriptors(t, "to check the same token", func() { check(token, nil) })
	filetest.Descriptors(t, "to refuse an older token", func() { check(1, ErrStale) })
	filetest.Descriptors(t, "to read the highest token", func() {
		if got, err := (ledger{f.Path, host{}}).highest(); got != token || err != nil {
			t.Errorf("highest is %d, %v; want %d", got, err, token)
		}
	})
	f.Path = filepath.Join(f.Path, "no directory")
	filetest.Descriptors(t, "to fail", func() {
		if err := f.Check(token); err == nil {
			t.Error("a token is kept below a file")
		}
	})
}
