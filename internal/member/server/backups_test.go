package server

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUnfinishedSnapshotsAreRemoved: what a killed member had put together for a client goes at the next start, and
// nothing else does.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of [one") // no pattern
	for _, path := range []string{"backup-123/snapshot.db", "wal/log", "my-backup-1"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clearBackups(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || left[0].Name() != "my-backup-1" || left[1].Name() != "wal" {
		t.Errorf("there is %v, want my-backup-1 and wal", left)
	}
	if err := clearBackups(""); err != nil {
		t.Errorf("without a directory: %v", err)
	}
	if err := clearBackups(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := clearBackups(filepath.Join(dir, "my-backup-1")); err == nil {
		t.Error("a file instead of a directory is no error")
	}
}
