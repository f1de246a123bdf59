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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultSocket is the path at which `tenure peer` listens for the processes of its machine.
const DefaultSocket = "/run/tenure/peer.sock"

// socketPathMax is the length of a path that a socket's address has room for on all systems.
const socketPathMax = 103

// ListenSocket listens at a path for Serve, with the mode given. It makes the directory if only
// that is missing, as it is under /run after each boot. It removes the socket of a peer that was
// killed, but none at which a process listens. Of several peers that start at once one gets the
// path.
func ListenSocket(path string, mode os.FileMode) (net.Listener, error) {
	return listenSocket(path, mode, func(path string) error {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// listenSocket is ListenSocket. A nil error of ask says that a process listens.
func listenSocket(path string, mode os.FileMode, ask func(path string) error) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	// From here on no other peer removes a socket here, which could be ours by then.
	unlock, err := lockDirectory(dir)
	if err != nil {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	defer unlock()
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	case st.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("flease: %s is no socket: choose another path", path)
	default:
		switch err := ask(path); {
		case err == nil:
			return nil, fmt.Errorf("flease: another process listens at %s: end it, or choose another path", path)
		case errors.Is(err, os.ErrNotExist): // its listener closed it just now
		case !errors.Is(err, syscall.ECONNREFUSED): // a listener that is too busy to answer, for instance
			return nil, fmt.Errorf("flease: another process may listen at %s: end it and remove the socket, or choose another path: %w", path, err)
		default:
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("flease: the socket of an earlier peer: %w", err)
			}
		}
	}
	l, err := listenPrivately(path, mode)
	if err != nil {
		return nil, fmt.Errorf("flease: listen for clients: %w", err)
	}
	return l, nil
}

// lockPatience is how long a peer that starts waits for others that start.
const lockPatience = 10 * time.Second

// lockDirectory has peers that listen in one directory do so one after the other. The kernel
// unlocks the directory when its process ends. On a filesystem without locks of directories, such
// as NFS, peers do without.
func lockDirectory(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return func() { f.Close() }, nil
		case time.Now().After(end):
			f.Close()
			return nil, fmt.Errorf("another process has locked %s for %v", dir, lockPatience)
		}
	}
}

// listenPrivately makes the socket in a directory that only this user may enter, sets its mode
// there, and links it to path. So the socket never has another mode at path, and the umask, which
// belongs to the whole process, does not matter.
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

// Close removes the socket first: while this process listens, the socket at the path is ours;
// afterwards it may be the next peer's.
func (l *socketListener) Close() error {
	l.once.Do(func() { l.closed = errors.Join(os.Remove(l.path), l.Listener.Close()) })
	return l.closed
}

// Addr returns the path at which clients find it.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Serve lets processes of this machine take leases through the peer, over a socket; see Dial. It
// returns when the listener is closed or the peer has ended, and all sessions are over. Clients
// keep their leases when their connections or the peer end, until the leases run out.
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
