package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/file"
)

// lifelinesOpen counts the lifelines of a store that this process has open, and those of them that its
// children inherit.
func lifelinesOpen(t *testing.T, dir string) (open, inherited int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		path, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // it may have been closed
		if !strings.HasPrefix(path, filepath.Join(dir, "lifelines")+"/") {
			continue
		}
		fd, _ := strconv.Atoi(e.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		open++
		if flags&unix.FD_CLOEXEC == 0 {
			inherited++
		}
	}
	return open, inherited
}

// The end of a holder is that of the command, too, where there is one: others take a lease over when the last
// process has ended that has inherited its lifeline. A program that only reads our lines has none.
func TestTheEndOfAHolderIsThatOfItsKind(t *testing.T) {
	for kind, tt := range map[file.Holder]struct {
		name            string
		open, inherited int
	}{file.Family: {"a guard with its command", 1, 1}, file.Process: {"a process alone", 1, 0}, file.Stranger: {"a program that reads lines", 0, 0}} {
		dir := t.TempDir()
		if out, err := command(t, "lease", "init", "--at", "file://"+dir, "--single-host", "--delay", "200ms"); err != nil {
			t.Fatalf("%s, %v", out, err)
		}
		l, err := openFor(t.Context(), place{url: "file://" + dir}, kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "n"}); err != nil {
			t.Error(err)
		}
		if open, inherited := lifelinesOpen(t, dir); open != tt.open || inherited != tt.inherited {
			t.Errorf("%s has %d lifelines, and its children inherit %d; want %d and %d", tt.name, open, inherited, tt.open, tt.inherited)
		}
		l.Close()
	}
}
