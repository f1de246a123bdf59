package server

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUnfinishedSnapshotsAreRemoved: what a killed member had put together for a client goes at the next start, and
// nothing else does.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
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
}
