package wal_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/tenure-lease/tenure/wal"
)

// Space that cannot be reserved is an error, and not taken for what a file system does not know.
func TestPreallocateFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate(50); err == nil {
		t.Error("space was reserved in a file that cannot be written")
	}
}
