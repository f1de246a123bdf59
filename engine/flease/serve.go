package flease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// DefaultSocket is where `tenure peer` listens for the commands of its machine.
const DefaultSocket = "/run/tenure/peer.sock"

// ListenSocket listens at a path for Serve, with the mode given. The directory is made if
// only that is missing, as it is under /run after each boot. What a peer that was killed has
// left at the path is removed; a path where somebody answers is not.
func ListenSocket(path string, mode os.FileMode) (net.Listener, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("flease: another process listens at %s: end it, or choose another path", path)
	}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("flease: %s is no socket: choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("flease: what an earlier peer left: %w", err)
		}
	}
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	return l, nil
}

// Serve lets processes of this machine take leases through the peer, over a socket; see
// Dial. It returns when the listener is closed, or the peer has ended, and its sessions
// are over. What clients hold when their connections or the peer end is theirs until they
// know that it is not: until their leases run out.
func (p *Peer) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel()
	places := make(chan struct{}, sessionsMax)
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return p.Err()
		case errors.Is(err, net.ErrClosed):
			return nil
		default: // out of descriptors, or the like
			p.cfg.Logger.Warn("flease: cannot accept clients", "error", err)
			_ = wait(ctx, 100*time.Millisecond)
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			_ = newLines(c).send(event{Event: "error"}.fill(fmt.Errorf("%w: %d clients are connected", ErrBusy, sessionsMax)))
			c.Close()
			continue
		}
		sessions.Go(func() {
			defer func() { <-places }()
			p.session(ctx, c)
		})
	}
}
