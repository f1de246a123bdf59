package file

import (
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Close comes at the last moment of a Do, which has done its work. The store's place is freed all
// the same, or a device's area would be claimed for as long as the process lives.
func TestCloseAsADoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		s.mu.Lock() // a Do
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.end()
		if !errors.Is(s.dead, os.ErrClosed) {
			t.Error("a store that was closed as a Do ended is still open")
		}
		time.Sleep(s.lookout.wait)
		next, err := Open(path, Options{Clock: realClock})
		if err != nil {
			t.Fatalf("a store that was closed as a Do ended keeps its area: %v", err)
		}
		next.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A handle that is closed removes the files that it has put aside just before: perhaps no other
// process comes for long.
func TestCloseRemovesWhatItPutsAside(t *testing.T) {
	b := newBench(t, InitOptions{})
	earlier := b.open()
	do(t, earlier, put("x", 1, 1, "one"))
	earlier.Close()
	s := b.open()
	do(t, s, put("x", 2, 2, "two"))
	place := s.home.place
	s.Close()
	if got := b.handles(); !slices.Equal(got, []string{place}) {
		t.Errorf("files %v after the last handle was closed, want its own: it has outdone the other", got)
	}
}
