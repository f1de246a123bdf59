package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// A crash at any moment leaves no file, or the whole file.
func TestAFileAppearsOnceItIsDurable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "saved.db")
	var there []bool
	disk := &waltest.Witness{Saw: func(string) {
		_, err := os.Lstat(path)
		there = append(there, err == nil)
	}}
	err := appear(disk, path, func(w io.Writer, part string) error {
		_, err := io.WriteString(w, "all of it")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	part := fmt.Sprintf("sync saved.db.part-%d", os.Getpid())
	if got, want := disk.Calls(), []string{part, "syncdir " + filepath.Base(dir)}; !slices.Equal(got, want) {
		t.Errorf("made durable: %q, want %q", got, want)
	}
	if want := []bool{false, true}; !slices.Equal(there, want) {
		t.Errorf("as these are made durable the file is there: %v, want %v", there, want)
	}
	if b, err := os.ReadFile(path); string(b) != "all of it" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("the directory has %v, want the file alone", left)
	}
}

func TestAFileThatIsNotWholeDoesNotAppear(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "saved.db")
	cut := errors.New("the connection is cut")
	err := appear(&waltest.Witness{}, path, func(w io.Writer, part string) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			t.Error(err)
		}
		return cut
	})
	if !errors.Is(err, cut) {
		t.Errorf("error %v, want %v", err, cut)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("the directory has %v, want nothing", left)
	}
}

// A part that another has left, or is writing, is not written over.
func TestAPartThatIsThereStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.db")
	part := fmt.Sprintf("%s.part-%d", path, os.Getpid())
	if err := os.WriteFile(part, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := appear(&waltest.Witness{}, path, func(w io.Writer, _ string) error { _, err := io.WriteString(w, "ours"); return err })
	if exit := (cli.ExitError{}); !errors.As(err, &exit) || exit.Code != cli.ExitCannotMake {
		t.Errorf("error %v, want one with the exit code %d", err, cli.ExitCannotMake)
	}
	if b, err := os.ReadFile(part); string(b) != "another's" {
		t.Errorf("the part that was there has %q, %v", b, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there, though its part could not be written: %v", err)
	}
}

func TestAFileThatAppearsMeanwhileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.db")
	err := appear(&waltest.Witness{}, path, func(w io.Writer, part string) error {
		return os.WriteFile(path, []byte("another's"), 0o600)
	})
	if exit := (cli.ExitError{}); !errors.As(err, &exit) || exit.Code != cli.ExitCannotMake {
		t.Errorf("error %v, want one with the exit code %d", err, cli.ExitCannotMake)
	}
	if b, err := os.ReadFile(path); string(b) != "another's" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
