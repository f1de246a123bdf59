package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// refusedPause is the least time between two lines about connections that were refused.
const refusedPause = time.Second

// refusals tell the log of connections of clients that were refused in their TLS handshake, one line a second: a
// certificate that has expired keeps all clients away, and the member is where its operator looks.
type refusals struct {
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	last    time.Time
	skipped int
}

// tell tells of one connection, unless nobody refused it: a probe connects and closes, and a member that stops closes.
func (r *refusals) tell(c net.Conn, err error) {
	for _, closed := range []error{io.EOF, net.ErrClosed, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !r.last.IsZero() && now.Sub(r.last) < refusedPause {
		r.skipped++
		return
	}
	r.logger.Warn("a connection of a client was refused", "from", c.RemoteAddr(), "at", c.LocalAddr(),
		"error", "TLS handshake: "+err.Error(), "similar lines left out", r.skipped)
	r.last, r.skipped = now, 0
}
