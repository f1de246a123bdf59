package flease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// TestFormerLife: after a restart a peer neither gives away a lease that a client took before, nor
// prolongs it.
func TestFormerLife(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		c := l.peers[2].client("c")
		defer c.Close()
		lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: 3500 * time.Millisecond})
		l.net.Cut("h3", "c", 5*time.Second) // the client does not hear of the restart
		if err := l.peers[2].close(); err != nil {
			t.Fatal(err)
		}
		l.peers[2].start(false)
		if s := l.peers[2].Status(); !s.Serving {
			time.Sleep(100 * time.Millisecond)
		}
		l.free("x", 6*time.Second, lease)
	})
}

// serves reports whether a peer that was just started serves at once.
func (h *labPeer) serves() bool {
	time.Sleep(100 * time.Millisecond)
	return h.Status().Serving
}

// TestStateSurvivesAPowerCut: the state of a planned end is durable when Close returns.
func TestStateSurvivesAPowerCut(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 1, cfg, func(l *lab) {
		h := l.peers[0]
		for i := range 8 {
			if err := h.close(); err != nil {
				t.Fatal(err)
			}
			h.disk.Crash(l.w.Rand(fmt.Sprint("saved ", i)))
			h.start(false)
			if !h.serves() {
				t.Fatalf("try %d: the state of a planned end is gone after a power cut", i)
			}
		}
	})
}

// TestStateIsUsedOnce: a peer that starts with a saved state has used it up, however the peer ends.
func TestStateIsUsedOnce(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 1, cfg, func(l *lab) {
		h := l.peers[0]
		for i := range 6 {
			if err := h.close(); err != nil {
				t.Fatal(err)
			}
			h.start(false)
			if !h.serves() {
				t.Fatal("it is silent after a planned restart")
			}
			h.p.End()
			h.disk.Kill()
			l.net.Exit(h.p)
			h.Peer.Close()
			h.disk.Crash(l.w.Rand(fmt.Sprint("used ", i)))
			h.start(false)
			if h.serves() {
				t.Fatalf("try %d: the same state is used twice, and what was promised in between is forgotten", i)
			}
			if err := h.Ready(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSilence: without a state, or with one that is damaged or of other terms, a
// start is silent for t_max and three ε.
func TestSilence(t *testing.T) {
	for name, spoil := range map[string]func(*labPeer){
		"none":             func(h *labPeer) { h.disk.Empty() },
		"damaged":          func(h *labPeer) { h.edit(func(b []byte) { b[len(b)-6] ^= 1 }) },
		"of another t_max": func(h *labPeer) { h.lab.cfg.TMax += time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := brief
			cfg.State = "state"
			inLab(t, 1, cfg, func(l *lab) {
				h := l.peers[0]
				if err := h.close(); err != nil {
					t.Fatal(err)
				}
				spoil(h)
				began := time.Now()
				h.start(false)
				if err := h.Ready(context.Background()); err != nil {
					t.Fatal(err)
				}
				if took, want := time.Since(began), l.cfg.TMax+3*l.cfg.Epsilon; took < want {
					t.Errorf("silent for %v, and has forgotten what it promised: want %v", took, want)
				}
			})
		})
	}
}

// edit changes the saved state.
func (h *labPeer) edit(f func([]byte)) {
	fs := h.disk.Disk.FS()
	const path = "state/flease-1.snapshot"
	file, err := fs.OpenFile(path, 2, 0)
	if err != nil {
		h.lab.t.Fatal(err)
	}
	defer file.Close()
	size, _ := file.Size()
	b := make([]byte, size)
	_, _ = file.ReadAt(b, 0)
	f(b)
	_, _ = file.WriteAt(b, 0)
	_ = file.Sync()
}

// TestSavedBeforeLeaving: no process can start in the peer's place before its state is durable. It
// would find none, and the state would be left for a later start.
func TestSavedBeforeLeaving(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 1, cfg, func(l *lab) {
		h := l.peers[0]
		before := h.fs.Fault
		h.fs.Fault = func(op, path string) error {
			if other, err := l.net.Listen(h.p, 7000); err == nil {
				other.Close()
				t.Errorf("the port is free at %s %s, before the state is durable", op, path)
			}
			return before(op, path)
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		h.start(false)
	})
}

// TestUnreadableState: a peer does not start with a state that it cannot remove.
func TestUnreadableState(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	for _, fails := range []string{"remove", "syncdir"} {
		t.Run(fails, func(t *testing.T) {
			inLab(t, 1, cfg, func(l *lab) {
				h := l.peers[0]
				if err := h.close(); err != nil {
					t.Fatal(err)
				}
				with := h.config()
				h.fs.Fault = func(op, _ string) error {
					if op == fails {
						return errors.New("no")
					}
					return nil
				}
				if err := h.try(with); err == nil || !strings.Contains(err.Error(), "cannot be used up") {
					t.Errorf("it starts with a state that another life may start with: %v", err)
				}
				h.p.End()
				l.net.Exit(h.p)
				h.start(false)
			})
		})
	}
}

// TestSkewIsForgotten: a fault of a peer's clock is forgotten some time after it is over.
func TestSkewIsForgotten(t *testing.T) {
	var log lockedBuffer
	cfg := brief
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	inLab(t, 3, cfg, func(l *lab) {
		says := func() string { return l.peers[0].Status().Peers[1].Error + l.peers[2].Status().Peers[1].Error }
		h := l.peers[1]
		h.off.Store(int64(time.Second)) // more than is allowed: the peer notices, and is silent
		time.Sleep(brief.TMax + time.Second)
		from := h.Leaser()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, _ = from.TryAcquire(ctx, tenure.Claim{Name: "x", TTL: time.Second})
		cancel()
		if !strings.Contains(says(), "the clock of peer 2, or ours, is wrong") {
			t.Fatalf("nobody says so: %q\n%s", says(), log.String())
		}
		h.off.Store(0)
		time.Sleep(3*brief.TMax + time.Second)
		if s := says(); s != "" {
			t.Errorf("the clock is right again, and the peers still say %q", s)
		}
		from.Close()
	})
}

// TestSilentStranger: a process that connects to the socket and says nothing gets no place.
func TestSilentStranger(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		k := l.peers[0].talk("stranger")
		began := time.Now()
		k.hear("error", time.Minute)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a process that says nothing keeps its place for %v", took)
		}
		k = l.peers[0].talk("client")
		k.say(`{"op":"hello","version":2}`)
		k.hear("welcome", time.Second)
		time.Sleep(time.Minute)
		k.say(`{"op":"status","id":1}`)
		if _, ok := k.hear("status", time.Second); !ok {
			t.Error("a client that is idle has lost its connection")
		}
	})
}

// TestWhoReadsNothing: a client that sends requests and reads no answers has no more claims and looks
// than others, and is disconnected soon.
func TestWhoReadsNothing(t *testing.T) {
	for what, ask := range map[string]string{
		"looks":  `{"op":"observe","id":%d}`,
		"claims": `{"op":"acquire","id":%d}`,
	} {
		inLab(t, 1, brief, func(l *lab) {
			k := l.peers[0].talk("client")
			k.say(`{"op":"hello","version":2}`)
			k.hear("welcome", time.Second)
			began, taken := time.Now(), 0
			_ = k.conn.SetWriteDeadline(began.Add(time.Minute))
			for id := 1; id <= 40_000; id++ {
				if _, err := fmt.Fprintf(k.conn, ask+"\n", id); err != nil {
					break
				}
				taken++
				if taken%50 == 0 {
					time.Sleep(time.Millisecond) // so that earlier requests are answered first
				}
			}
			if taken == 40_000 {
				t.Errorf("%s without an end are under way for a client that reads nothing", what)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("a client that reads nothing keeps its place for %v", took)
			}
		})
	}
}

// TestOtherVersion: a client of another version is refused with a reason.
func TestOtherVersion(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		for _, v := range []int{1, 3} {
			k := l.peers[0].talk("client")
			k.say(`{"op":"hello","version":%d}`, v)
			if e, ok := k.hear("error", time.Second); !ok || !strings.Contains(e.Error, "run one version of the program") {
				t.Errorf("version %d: %+v", v, e)
			}
		}
	})
}

// TestBadTokens: an await with a bad token is refused, and not answered at random.
func TestBadTokens(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		for _, token := range []string{"", "x", "-1", "1.5", "18446744073709551616"} {
			k := l.peers[0].talk("client")
			k.say(`{"op":"hello","version":2}`)
			k.hear("welcome", time.Second)
			k.say(`{"op":"await","id":1,"name":"x","tokens":["%s"]}`, token)
			if e, ok := k.hear("error", time.Second); !ok || !strings.Contains(e.Error, "a token") {
				t.Errorf("a call that awaits other holders than that of token %q is not told what is wrong: %+v", token, e)
			}
		}
	})
}

// TestEnds: the errors of a client whose peer is closed have words for people.
func TestEnds(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		local := l.peers[0].Leaser()
		leases := []tenure.Lease{
			l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second}),
		}
		held := l.acquire(local, time.Second, tenure.Claim{Name: "y", TTL: time.Second})
		l.peers[0].kill()
		for _, lease := range append(leases, held) {
			<-lease.Done()
			for _, bad := range []string{"lost: lease lost", "open a new one", "closed network", "EOF"} {
				if err := lease.Err(); strings.Contains(err.Error(), bad) {
					t.Errorf("the lease ends with %q", err)
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Observe(ctx, "x")
		for _, bad := range []string{"closed network", "EOF", "set tcp", "set unix"} {
			if err == nil || strings.Contains(err.Error(), bad) {
				t.Errorf("observe fails with %q", err)
			}
		}
		l.peers[0].start(false)
	})
}

// TestReleasedBeforeTheStateIsSaved: a planned end releases its leases while the peer can still tell the others, and saves
// its state after that. Its holders hear that the leases were released, and not lost.
func TestReleasedBeforeTheStateIsSaved(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		lease := l.acquire(l.peers[0].Leaser(), time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		if err := l.peers[0].close(); err != nil {
			t.Errorf("the planned end: %v", err)
		}
		if err := lease.Err(); !errors.Is(err, tenure.ErrReleased) {
			t.Errorf("behind a planned end its lease says %v, want %v", err, tenure.ErrReleased)
		}
		if took := l.free("x", 6*time.Second, lease); took > time.Second {
			t.Errorf("behind a planned end the next one waits %v for a lease that was to be released", took)
		}
		l.peers[0].start(false)
	})
}
