package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"

	"github.com/tenure-lease/tenure/internal/host/quietlog"
)

// refusals tell the log of connections of clients that were refused in their TLS handshake, one line a second: a
// certificate that has expired keeps all clients away, and the member is where its operator looks.
type refusals struct {
	logger *slog.Logger
	quiet  quietlog.Log
}

// tell tells of one connection, unless nobody refused it: a probe connects and closes, and a member that stops closes.
func (r *refusals) tell(c net.Conn, err error) {
	for _, closed := range []error{io.EOF, net.ErrClosed, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return
		}
	}
	r.quiet.Warn(r.logger, "a connection of a client was refused", "from", c.RemoteAddr(), "at", c.LocalAddr(), "error", "TLS handshake: "+err.Error())
}
