package flease

import (
	"cmp"
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

// socketPathMax is what a socket's address has room for, on all systems.
const socketPathMax = 103

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
	l, err := listenPrivately(path, mode)
	if err != nil {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	return l, nil
}

// listenPrivately makes the socket in a directory that only this user may enter, sets its mode
// there, and links it to path. So nobody finds the socket at path with another mode, and the
// umask, which belongs to the whole process, does not matter.
func listenPrivately(path string, mode os.FileMode) (net.Listener, error) {
	private, err := os.MkdirTemp(filepath.Dir(path), ".s") // short, for a socket's path must be
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	if len(made) > socketPathMax {
		return nil, fmt.Errorf("the path %s is too long for a socket: its directory's may have %d bytes", path, socketPathMax-len("/.s1234567890/s"))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, mode); err == nil {
		err = os.Link(made, path) // unlike a rename, it fails if another process was faster
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socketListener{Listener: l, path: path}, nil
}

// socketListener is a listener at another path than the one that it was made at.
type socketListener struct {
	net.Listener
	path   string
	once   sync.Once
	closed error
}

// Close removes the socket first: as long as somebody listens at the path, what is there is
// ours, and afterwards it may be the next peer's.
func (l *socketListener) Close() error {
	l.once.Do(func() { l.closed = errors.Join(os.Remove(l.path), l.Listener.Close()) })
	return l.closed
}

// Addr is where clients find it.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

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
	places := places{most: cmp.Or(p.cfg.sessions, sessionsMax)}
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
		s := p.newSession(ctx, c)
		if !places.take(s) {
			_ = s.lines.send(event{Event: "error"}.fill(fmt.Errorf("%w: %d clients are connected, and each holds or waits for something", ErrBusy, places.most)))
			s.leave()
			continue
		}
		sessions.Go(func() {
			defer places.free(s)
			s.serve()
		})
	}
}
