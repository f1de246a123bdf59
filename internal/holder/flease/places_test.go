package flease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestWhoMakesRoom: the client that has been idle for the longest time makes room, once, and no client that holds or
// waits for a lease. When it ends later, it frees no other client's place.
func TestWhoMakesRoom(t *testing.T) {
	for range 20 { // because the order of a map is random
		places := &places{most: 6}
		var left []string
		come := func(name string, said machine.Mono, holds, looks int) *session {
			s := &session{said: said, claims: map[uint64]*sessionClaim{}, looks: map[uint64]context.CancelFunc{}, leave: func() { left = append(left, name) }}
			for i := range holds {
				s.claims[uint64(i)] = &sessionClaim{}
			}
			for i := range looks {
				s.looks[uint64(i)] = func() {}
			}
			return s
		}
		all := []*session{come("holds", 1, 1, 0), come("looks", 2, 0, 1), come("long idle", 3, 0, 0), come("idle", 5, 0, 0), come("longest idle", 2, 0, 0), come("just idle", 9, 0, 0)}
		for _, s := range all {
			if !places.take(s) || len(left) > 0 {
				t.Fatalf("there is room for six, and to the next it is refused, or %q have to go", left)
			}
		}
		for i, want := range []string{"longest idle", "long idle", "idle", "just idle"} {
			if !places.take(come("new", 10, 1, 0)) || len(left) != i+1 || left[i] != want {
				t.Fatalf("the next takes the place of %q, want %q", left, want)
			}
			if len(places.taken) != 6 {
				t.Fatalf("of six places %d are taken", len(places.taken))
			}
		}
		if places.take(come("one too many", 10, 0, 0)) || len(left) != 4 {
			t.Fatalf("nobody is idle, and one more comes; there went %q", left)
		}
		places.free(all[4])
		if len(places.taken) != 6 {
			t.Fatalf("one whose place was taken leaves another's free: of six %d are taken", len(places.taken))
		}
		places.free(all[0])
		if !places.take(come("another", 10, 0, 0)) || len(left) != 4 {
			t.Fatalf("one has gone, and the next gets no place, or %q had to go", left)
		}
	}
}

// TestASocketAtItsPath: the socket has the requested mode, whatever the umask is, and clients find it. Nothing else
// is left in its directory. A file that is at the path already is left alone.
func TestASocketAtItsPath(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	for _, mode := range []os.FileMode{0o600, 0o660, 0o666} {
		dir, err := os.MkdirTemp("", "fl")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "s")
		l, err := listenPrivately(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Lstat(path); err != nil || st.Mode().Perm() != mode || st.Mode()&os.ModeSocket == 0 {
			t.Errorf("asked for with the mode %v, the socket has %v, %v", mode, st.Mode(), err)
		}
		if got := l.Addr().String(); got != path {
			t.Errorf("clients find it at %q, want %q", got, path)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("nobody listens at the path: %v", err)
		}
		c.Close()
		only := func(when string, want ...string) {
			t.Helper()
			var names []string
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if err != nil || fmt.Sprint(names) != fmt.Sprint(want) {
				t.Errorf("%s the directory has %q, want %q", when, names, want)
			}
		}
		only("while somebody listens", "s")
		if second, err := listenPrivately(path, mode); !errors.Is(err, os.ErrExist) {
			t.Errorf("another listens at a path that is taken: %v", err)
			second.Close()
		}
		only("when another has failed to listen", "s")
		if err := dialOnce(path); err != nil {
			t.Errorf("when another has failed to listen, nobody does: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		only("when it is closed")
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("when it is closed: %v", err)
		}
	}
}

// TestAPeerThatFails: a peer ends for good, with all its leases, for the first reason. Its machine takes no more steps,
// because other peers could believe its messages.
func TestAPeerThatFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := &scripted{answer: func(int, uint64) flease.Report { return nil }}
		p := scriptedPeer(t, m, time.Second)
		p.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		held := heldClaim(p.Leaser(), tenure.Claim{}, p.cfg.Clock.Now().Add(time.Hour), 0)
		waits := p.Leaser().newClaim(tenure.Claim{})
		answer := waits.Verdict()
		p.claims[1], p.claims[2] = held, waits
		done := held.Done()
		why := errors.New("its first reason")
		p.fail(why)
		p.fail(errors.New("its second reason"))
		select {
		case <-p.Done():
		default:
			t.Error("it goes on")
		}
		if err := p.Err(); err != why {
			t.Errorf("it ends for %v, want %v", err, why)
		}
		if n := strings.Count(log.String(), "the peer ends"); n != 1 || !strings.Contains(log.String(), "its first reason") {
			t.Errorf("the log says %q", log.String())
		}
		select {
		case <-done:
		default:
			t.Error("a lease that was held through it goes on")
		}
		if err := held.Err(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, why) {
			t.Errorf("a lease that was held through it ends with %v", err)
		}
		select {
		case err := <-answer:
			if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) || errors.Is(err, tenure.ErrLost) {
				t.Errorf("the waiter hears %v", err)
			}
		default:
			t.Error("the waiter hears nothing")
		}
		if p.driver.Do(func() { t.Error("its machine is looked at") }) {
			t.Error("a peer that has failed takes steps")
		}
		p.driver.Step(flease.Release{ID: 9})
		synctest.Wait()
		if len(m.released) > 0 || len(p.claims) > 0 {
			t.Errorf("a peer that has failed takes steps: %v; and has %d claims", m.released, len(p.claims))
		}
		spawned := false
		p.spawn(func() { spawned = true })
		if synctest.Wait(); spawned {
			t.Error("a peer that has failed begins something")
		}
		p.driver.Stop()
	})
}

// TestHowManySayThatItRunsTwice: a peer ends when more than half of the others say that another process runs in its
// place. Each counts once, and only members count.
func TestHowManySayThatItRunsTwice(t *testing.T) {
	for _, tt := range []struct {
		members int
		say     []machine.NodeID
		ends    bool
	}{
		{2, []machine.NodeID{2}, true},
		{3, []machine.NodeID{2}, false},
		{3, []machine.NodeID{2, 2, 2}, false},
		{3, []machine.NodeID{2, 3}, true},
		{3, []machine.NodeID{2, 9}, false},
		{4, []machine.NodeID{2}, false},
		{4, []machine.NodeID{2, 4}, true},
		{5, []machine.NodeID{2, 4}, false},
		{5, []machine.NodeID{2, 4, 5}, true},
	} {
		p := &Peer{cfg: Config{Self: "127.0.0.1:1", Clock: new(clock.Fake), Wall: time.Now, Logger: slog.New(slog.DiscardHandler)}, self: 1, members: Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}, health: health{heard: map[machine.NodeID]heard{}}}
		for i := range tt.members {
			p.members.Addrs[machine.NodeID(i+1)] = fmt.Sprintf("127.0.0.1:%d", i+1)
		}
		p.ctx, p.cancel = context.WithCancelCause(t.Context())
		p.startOver(t, &scripted{})
		reason := errors.New("made up")
		for i, by := range tt.say {
			p.doubled(by, reason)
			if last := i == len(tt.say)-1; (p.Err() != nil) != (last && tt.ends) {
				t.Errorf("of %d peers %v say that one runs twice, and it ends with %v", tt.members, tt.say[:i+1], p.Err())
			}
			if p.Err() == nil && p.heard[by].err == nil {
				t.Errorf("peer %d says that one runs twice, and people do not hear of it", by)
			}
		}
		if err := p.Err(); tt.ends && (!errors.Is(err, reason) || !strings.Contains(err.Error(), "another process runs as peer 1 (127.0.0.1:1): end one of the two")) {
			t.Errorf("it ends with %v", err)
		}
		p.letIn(2)
		if p.twice[2] {
			t.Error("one that has let it in says still that it runs twice")
		}
		p.driver.Stop()
	}
}
