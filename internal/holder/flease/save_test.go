package flease_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"
)

// TestWhatIsNotSavedIsTold: if Close cannot save the state, it says so, and the next start has a
// quarantine. No half of a state is left.
func TestWhatIsNotSavedIsTold(t *testing.T) {
	const next = "state/flease-1.snapshot.new"
	for name, tt := range map[string]struct {
		spoil func(*labPeer)
		says  string
	}{
		"too busy": {func(h *labPeer) {
			until := make(chan struct{})
			h.Stall(until)
			time.AfterFunc(10*time.Second, func() { close(until) })
		}, "too busy to save its state; its next start has a quarantine"},
		"open":    {failing("open"), "save the state; the next start has a quarantine"},
		"write":   {failing("write"), "save the state; the next start has a quarantine"},
		"sync":    {failing("sync"), "save the state; the next start has a quarantine"},
		"rename":  {failing("rename"), "save the state; the next start has a quarantine"},
		"syncdir": {failing("syncdir"), "save the state; the next start has a quarantine"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := brief
			cfg.State = "state"
			inLab(t, 1, cfg, func(l *lab) {
				h := l.peers[0]
				tt.spoil(h)
				if err := h.close(); err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the peer saves nothing, and its end says: %v, want %q", err, tt.says)
				}
				if f, err := h.disk.Disk.FS().OpenFile(next, 0, 0); !errors.Is(err, fs.ErrNotExist) {
					if err == nil {
						f.Close()
					}
					t.Errorf("half of a state is left behind: %v", err)
				}
				if name == "syncdir" { // it may be durable all the same
					h.disk.Empty()
				}
				h.start(false)
				if h.serves() {
					t.Error("nothing was saved, and the next life begins with it")
				}
				if err := h.Ready(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// failing has an operation on the disk fail.
func failing(fails string) func(*labPeer) {
	return func(h *labPeer) {
		before := h.fs.Fault
		h.fs.Fault = func(op, path string) error {
			if op == fails {
				return errors.New("no")
			}
			return before(op, path)
		}
	}
}

// TestAStateThatCannotBeRead: a peer does not start as if there were no state, because a later start
// might find it. A start that fails leaves nothing open.
func TestAStateThatCannotBeRead(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	for _, fails := range []string{"mkdir", "open", "size", "read"} {
		t.Run(fails, func(t *testing.T) {
			inLab(t, 1, cfg, func(l *lab) {
				h := l.peers[0]
				if err := h.close(); err != nil {
					t.Fatal(err)
				}
				with := h.config()
				failing(fails)(h)
				switch err := h.try(with); {
				case err == nil:
					t.Error("a peer whose disk fails starts")
					h.Peer.Close()
				case !strings.HasPrefix(err.Error(), "flease: ") || !strings.HasSuffix(err.Error(), ": no"):
					t.Errorf("a peer whose disk fails says %v", err)
				}
				if n := l.net.Has(h.p); n > 0 || len(h.fs.Open()) > 0 {
					t.Errorf("a start that failed has left %d listeners open, and the files %q", n, h.fs.Open())
				}
				h.p.End()
				l.net.Exit(h.p)
				h.start(false)
				if !h.serves() {
					t.Error("the state is there still, and the next start does not use it")
				}
			})
		})
	}
}
