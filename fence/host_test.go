package fence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileOverWhatACrashLeft: a file that a call wrote and did not rename any more is written anew, whatever it
// holds.
func TestFileOverWhatACrashLeft(t *testing.T) {
	file := File{filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(file.Path+".next", []byte("18446744073709551615\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := file.Check(42); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file.Path); err != nil || string(b) != "42\n" {
		t.Errorf("a call had left a longer token: now there is %q, %v, want 42 and a line end", b, err)
	}
	if highest, err := (ledger{file.Path, host{}}).highest(); err != nil || highest != 42 {
		t.Errorf("the highest token is %d, %v, want 42", highest, err)
	}
}

// TestFileIsWrittenOnceForAToken: calls with a token that is durable leave the file as it is, as they know from
// the one that is locked, which outlives each call.
func TestFileIsWrittenOnceForAToken(t *testing.T) {
	file := File{filepath.Join(t.TempDir(), "token")}
	var first os.FileInfo
	for i := range 3 {
		if err := file.Check(42); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file.Path + ".lock"); err != nil || string(b) != "42\n" {
			t.Errorf("behind call %d the locked file says %q, %v, want the token that is durable", i+1, b, err)
		}
		now, err := os.Stat(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = now
		}
		if !os.SameFile(first, now) {
			t.Errorf("call %d with one token has written the file again", i+1)
		}
	}
	if names, err := filepath.Glob(file.Path + "*"); err != nil || strings.Join(names, " ") != file.Path+" "+file.Path+".lock" {
		t.Errorf("there are %q, %v, want the token's file and the one that is locked", names, err)
	}
}
