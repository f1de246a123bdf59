package fleaseworld

import (
	"encoding/binary"
	"io"
	"os"
	"time"

	"github.com/tenure-lease/tenure/internal/wire"
)

// backUp ends the peer as planned, keeps a copy of the state that it leaves, and starts it again.
func (h *host) backUp() bool {
	return h.stopAnd(leaves, func() {
		h.mu.Lock()
		h.backup = h.state()
		h.mu.Unlock()
	})
}

// putBack kills the peer, and starts it with the state of an earlier end. Of its promises it must know nothing, for leases
// do not bear that. So the state is one of other terms, and only the records in it are of use.
func (h *host) putBack() bool {
	h.mu.Lock()
	old := h.backup
	h.mu.Unlock()
	if old == nil {
		return false
	}
	r := wire.Reader{Rest: old}
	r.Take(8 + 8) // the file's magic, and the peer
	r.Bytes()     // the records
	b := append([]byte{}, old[:len(old)-4]...)
	b[len(old)-len(r.Rest)] ^= 1 // the terms
	b = binary.LittleEndian.AppendUint32(b, wire.Checksum(b))
	done := h.stopAnd(exits, func() {
		f, err := h.disk.Disk.FS().OpenFile(h.statePath(), os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			_, err = f.WriteAt(b, 0)
			_ = f.Sync()
			_ = f.Close()
		}
		if err != nil {
			h.s.w.Fail("put a state back: %v", err)
		}
	})
	if done {
		h.s.w.Count("states put back", 1)
	}
	return done
}

func (h *host) statePath() string { return "state/flease-" + h.name[1:] + ".snapshot" }

// state is the state that the last peer has left; nil if there is none.
func (h *host) state() []byte {
	f, err := h.disk.Disk.FS().OpenFile(h.statePath(), os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, _ := f.Size()
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil
	}
	return b
}

// putStatesBack cuts a host off for a while, in turns, and meanwhile has another start with a state that is not its last. The third
// can tell that one, and is cut off as soon as the first is back.
func (s *stage) putStatesBack(until time.Duration) {
	whole := func() bool {
		for _, h := range s.hosts {
			if p := h.now(); p == nil || !p.Status().Serving || p.Status().Incomplete {
				return false
			}
		}
		return true
	}
	for i := 0; s.w.Elapsed() < until; i++ {
		for !whole() && !s.ended() {
			time.Sleep(100 * time.Millisecond)
		}
		h, away, third := s.hosts[i%3], s.hosts[(i+1+i/3%2)%3], s.hosts[(i+2-i/3%2)%3]
		h.backUp()
		for !whole() && !s.ended() {
			time.Sleep(100 * time.Millisecond)
		}
		silent := s.tmax + 4*s.eps + 6*time.Second // of a start; and a question to the host that is away takes five seconds
		s.isolate(away, s.tmax+silent)
		time.Sleep(s.tmax)
		h.putBack()
		time.Sleep(silent)
		s.isolate(third, s.tmax)
	}
}
