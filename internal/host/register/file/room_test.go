package file

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

func enter(name string, w byte) register.Op {
	return register.Op{Name: name, Writer: writer(w), Op: register.Enter{}}
}

// Of several that come at once and do not all fit in, none keeps a slot that it was refused.
func TestWhoIsRefusedKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openArea(t, newDevice(t, InitOptions{Handles: 1, Slots: 4}))
		for i := range byte(3) {
			do(t, s, put(fmt.Sprint("r", i), uint64(i+1), 1, "data"))
		}
		refused := []register.Op{enter("a", 2), enter("b", 3)}
		for i, r := range s.Do(refused) {
			if r.Err == nil || !strings.Contains(r.Err.Error(), "4 slots") {
				t.Errorf("two come, and one slot is free: %d is answered by %v, want that all are in use", i, r.Err)
			}
		}
		do(t, s, leave("a", 2), leave("b", 3))
		if r := s.Do([]register.Op{put("c", 4, 4, "data")})[0]; r.Err != nil {
			t.Errorf("a slot was free before two were refused that have left, and is not any more: %v", r.Err)
		}
	})
}

// A writer that found no room and has left is forgotten: a handle that moves does not look for
// places for all writers of the past.
func TestWhoFoundNoRoomIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openArea(t, newDevice(t, InitOptions{Handles: 2, Slots: 4}))
		for i := range byte(4) {
			do(t, s, put(fmt.Sprint("r", i), uint64(i+1), 1, "data"))
		}
		for i := range byte(3) {
			s.Do([]register.Op{put("refused", 9, 10+i, "data")})
			do(t, s, leave("refused", 10+i))
			s.Do([]register.Op{put("refused", 9, 20+i, "data"), leave("refused", 20+i)})
		}
		c := s.home.f.(*area).claim
		if err := c.dev.write(claimBlock{data: disklease.Unreadable(nil, 0), version: machine.Version{Seq: 99}}, claimAt(c.area)); err != nil {
			t.Fatal(err)
		}
		until(t, "the claim is lost", func() bool { return c.check() != nil })
		wantFailure(t, s, put("r0", 10, 1, "on"), register.ErrGone)
		if r := s.Do([]register.Op{put("r0", 10, 1, "on")})[0]; r.Err != nil {
			t.Errorf("six were refused, have left, and are given places when the handle moves: %v", r.Err)
		}
		wantContents(t, s, "r3", "4 data")
	})
}

// A writer that came while the disk was full, and has left, is forgotten. A handle has no room for all that try
// for hours.
func TestWhoCameToAFullDiskIsForgotten(t *testing.T) {
	b := newBench(t, InitOptions{SingleHost: true})
	full := true
	b.files = &faulty{host: host{buffered: true}, fail: func(step, _ string, n int) (int, error) {
		if full && step == "write" {
			return n / 2, unix.ENOSPC
		}
		return 0, nil
	}}
	s := b.open()
	for i := range byte(5) {
		wantFailure(t, s, enter("x", i), unix.ENOSPC)
		wantFailure(t, s, put("x", 1, i, "data"), unix.ENOSPC)
		do(t, s, leave("x", i))
		s.Do([]register.Op{put("y", 1, i, "data"), leave("y", i)})
	}
	if n := len(s.slots); n != 0 {
		t.Errorf("%d slots are kept for writers that have left without a record", n)
	}
	full = false
	do(t, s, put("x", 2, 9, "two"))
	wantContents(t, s, "x", "2 two")
	// Records that may have been written are kept.
	full = true
	wantFailure(t, s, put("x", 3, 9, "three"), unix.ENOSPC)
	do(t, s, leave("x", 9))
	full = false
	wantContents(t, s, "x", "3 three")
}

// A handle can write so many registers, and says so when it is asked for more.
func TestAsManyRegistersAsAHandleCanWrite(t *testing.T) {
	s := newBench(t, InitOptions{SingleHost: true}).open()
	ops := make([]register.Op, mostSlots+1)
	for i := range ops {
		ops[i] = enter(fmt.Sprint("r", i), 1)
	}
	for i, r := range s.Do(ops) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), fmt.Sprint(mostSlots, " registers at most")) {
			t.Fatalf("of %d registers at once number %d: %v, want that it is too many", len(ops), i, r.Err)
		}
	}
}
