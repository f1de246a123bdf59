package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// An incoming connection says which member it is of, and a stranger can say so, too. So
// before anything on it is read, the receiver dials the address that it knows of that
// member and asks whether the connection is of the process there. The dialer has drawn a
// ticket for its connection, 128 random bits, which it tells nobody but the member that it
// dials; the question names it. A stranger's ticket is of no process at the address, and
// one that it has of a member that dialed the stranger is good for the stranger only: the
// question names the member that was dialed.

// draw makes a ticket for a connection to a peer. It is good until done is called.
func (t *Transport) draw(r *remote) (tk ticket, done func()) {
	tk = newTicket()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dialing[tk] = r.id
	return tk, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.dialing, tk)
	}
}

// mine reports whether this process is dialing the member that asks, with that ticket.
func (t *Transport) mine(h hello) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	to, dialing := t.dialing[h.ticket]
	return dialing && to == machine.NodeID(h.from)
}

// confirmed asks at a peer's address whether a connection is of the process there. It asks
// for as long as the guest is admitted. Once a guest was put out, no connection is made for
// it any more. Otherwise a stranger could cause any number of connections to an address
// where nobody answers.
func (t *Transport) confirmed(r *remote, h hello, by *Guest) (status, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	defer context.AfterFunc(by.stay, cancel)()
	// The dialer waits for twice as long, and hears why.
	_, hangUp, err := t.dialWith(ctx, r, kindConfirm, h.ticket, t.timing.handshake/2)
	switch {
	case err == nil:
		hangUp()
		return statusWelcome, nil
	case errors.Is(err, errNotMine):
		return statusDuplicateID, fmt.Errorf("%w: %x is at %s, and does not know of this connection", ErrDuplicateID, uint64(h.from), r.addr)
	}
	return statusUnconfirmed, fmt.Errorf("%w: asked %x at %s: %w", ErrUnconfirmed, uint64(h.from), r.addr, err)
}
