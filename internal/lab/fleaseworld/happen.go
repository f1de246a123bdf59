package fleaseworld

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// happen carries out a fault that no process carries out itself, if it can.
func (s *stage) happen(f world.Fault) bool {
	s.running.Add(1)
	defer s.running.Done()
	h := s.hostOf(f.Who)
	if h == nil {
		return false // a spare host, in a world without any
	}
	switch f.Kind {
	case world.Kill:
		return h.stop(exits, f.For)
	case world.Crash:
		return h.stop(crashes, f.For)
	case planned:
		return h.stop(leaves, f.For)
	case killClient:
		return s.killClient(f.Who)
	case world.Cut:
		s.net.Cut(f.Who, f.With, f.For)
	case world.Isolate:
		s.isolate(h, f.For)
	case world.Reset:
		n := s.net.Reset(f.Who, "")
		s.w.Count("connections reset", n)
		return n > 0
	case world.HalfOpen:
		n := s.net.HalfOpen(f.Who)
		s.w.Count("half-open connections", n)
		return n > 0
	case world.ClockJump:
		s.jump(h, f.For)
	case world.Member:
		return s.changeMembers()
	case world.Stranger:
		s.stranger(h)
	}
	return true
}

func (s *stage) hostOf(who string) *host {
	name, _, _ := strings.Cut(who, "c")
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// isolate cuts a host off from the other hosts, but not from its own clients.
func (s *stage) isolate(h *host, d time.Duration) {
	for _, o := range s.hosts {
		if o != h {
			s.net.Cut(h.name, o.name, d)
			s.net.Cut(o.name, h.name, d)
		}
	}
}

// jump sets a synchronized clock, and sets it right before the peer's silence is over: it must
// not act by a clock that is wrong by more than ε.
func (s *stage) jump(h *host, by time.Duration) {
	h.wall.Jump(by)
	time.Sleep(s.between(0, s.tmax/2))
	h.wall.Jump(-by)
}

// hurtByDisk reports whether a peer may end because its disk fails.
func (s *stage) hurtByDisk() bool { return s.shape.disks }

// stranger speaks to both ports of a host, and is no peer and no client.
func (s *stage) stranger(h *host) {
	p := s.w.Start(fmt.Sprintf("stranger%d", s.between(0, 1e6)))
	defer func() {
		p.End()
		s.net.Exit(p)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), s.tmax)
	defer cancel()
	junk := make([]byte, 4096)
	for _, at := range []string{h.addr(), h.socket()} {
		for _, say := range []string{
			"", "TENUREPR\x01\x00\x01\x00", "{\"op\":\"hello\",\"version\":2}\n{\"op\":\"alive\",\"at\":1,\"ids\":[1,2,3]}\n{\"op\":\"release\",\"id\":1}\n",
			"{\"op\":\"hello\",\"version\":2}\n{\"op\":\"acquire\",\"id\":1,\"name\":\"" + s.names[0] + "\",\"ttl_ms\":1000,\"slots\":1}\n",
		} {
			c, err := s.net.Dialer(p)(ctx, at)
			if err != nil {
				continue
			}
			_ = c.SetDeadline(time.Now().Add(time.Second))
			rand.Read(junk)
			_, _ = c.Write(append([]byte(say), junk[:s.between(0, 4095)]...))
			p.Sleep(s.between(0, time.Second))
			_ = c.Close()
		}
	}
	s.w.Count("strangers", 1)
}

// t is a context for calls of the world's own.
func (s *stage) t() context.Context { return context.Background() }
