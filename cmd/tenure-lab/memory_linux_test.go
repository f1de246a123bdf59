package main

import (
	"os"
	"testing"
)

func TestInMemory(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("this machine has no directory that is known to be in memory")
	}
	for dir, want := range map[string]bool{"/dev/shm": true, "/proc": false, "/no/such/directory": false} {
		if got := inMemory(dir); got != want {
			t.Errorf("%s is in memory only: %v, want %v", dir, got, want)
		}
	}
}
