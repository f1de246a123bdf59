package node

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

func TestANoteOfRemovalSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(20) {
		disk := waltest.NewDisk()
		if err := checkRemoved("/data", disk.FS()); err != nil {
			t.Fatalf("an empty directory: %v", err)
		}
		if err := noteRemoval("/data", disk.FS(), "removed"); err != nil {
			t.Fatal(err)
		}
		disk.Crash(rand.New(rand.NewPCG(seed, 0)))
		if err := checkRemoved("/data", disk.FS()); !errors.Is(err, ErrRemoved) {
			t.Errorf("seed %d: after the power cut: %v, want %v", seed, err, ErrRemoved)
		}
	}
}

func TestADirectoryThatCannotBeReadIsNotTakenForAMembers(t *testing.T) {
	disk := waltest.NewDisk()
	fsys := disk.FS()
	broken := errors.New("input/output error")
	fsys.Fault = func(string, string) error { return broken }
	if err := checkRemoved("/data", fsys); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v: the note may be there", err, broken)
	}
}

// A record of a removal that cannot be made durable is an error, for the member would start again.
func TestEveryFailedNoteOfRemovalIsTold(t *testing.T) {
	broken := errors.New("broken")
	for at := 1; ; at++ {
		fsys, calls, failed := waltest.NewDisk().FS(), 0, ""
		fsys.Fault = func(op, path string) error {
			if calls++; calls == at {
				failed = op + " " + path
				return broken
			}
			return nil
		}
		err := noteRemoval("/data", fsys, "removed")
		if failed == "" {
			return
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s fails: %v, want %v", failed, err, broken)
		}
		if left := fsys.Open(); len(left) > 0 {
			t.Errorf("%s fails: %v is left open", failed, left)
		}
	}
}
