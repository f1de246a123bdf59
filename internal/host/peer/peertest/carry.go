package peertest

import (
	"bytes"
	"io"
	"time"
)

// piece is what arrived at some time; the end of all is an empty one.
type piece struct {
	data    []byte
	arrived time.Time
}

// underWay is how many pieces may be between two members: more than a batching sender
// makes in the time that any way on earth takes.
const underWay = 4096

// carry copies what src sends to dst, each piece when pass returns. It closes dst, and
// ends when src has.
func carry(dst io.WriteCloser, src io.Reader, pass func(arrived time.Time) error) {
	pieces := make(chan piece, underWay)
	go func() {
		defer close(pieces)
		buffer := make([]byte, 64<<10)
		for {
			n, err := src.Read(buffer)
			pieces <- piece{bytes.Clone(buffer[:n]), time.Now()}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		if pass(p.arrived) != nil {
			break
		}
		if _, err := dst.Write(p.data); err != nil {
			break
		}
	}
	dst.Close()
	for range pieces { // until src has ended, too
	}
}
