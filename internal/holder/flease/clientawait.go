package flease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tenure-lease/tenure"
)

// await answers a client when the holders of a name differ from those that it knows.
func (s *session) await(r request) error {
	since := tenure.State{Name: r.Name}
	for _, token := range r.Tokens {
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return fmt.Errorf("a token: %w", err)
		}
		since.Holders = append(since.Holders, tenure.Holding{Token: n})
	}
	return s.look(r.ID, "observed", func(ctx context.Context) event {
		st, err := s.leaser.Await(ctx, since)
		return observed(st, err)
	})
}

// observe looks once.
func (s *session) observe(r request) error {
	return s.look(r.ID, "observed", func(ctx context.Context) event {
		st, err := s.leaser.Observe(ctx, r.Name)
		return observed(st, err)
	})
}

func observed(st tenure.State, err error) event {
	if err != nil {
		return event{Event: "observed"}.fill(err)
	}
	return event{Event: "observed", State: &st}
}

// look answers a request that changes nothing with an event of the kind, on a goroutine of its own.
// A connection has at most sessionClaimsMax of them.
func (s *session) look(id uint64, kind string, f func(context.Context) event) error {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	twice, room := s.looks[id] != nil, len(s.looks) < sessionClaimsMax
	if !twice && room {
		s.looks[id] = cancel
	}
	s.mu.Unlock()
	if twice || !room {
		cancel()
		return s.turnAway(kind, id, twice)
	}
	s.minds.Go(func() {
		defer cancel()
		e := f(ctx)
		e.ID = id
		_ = s.lines.send(e)
		s.mu.Lock() // only now: an answer that is not read counts, too
		delete(s.looks, id)
		s.mu.Unlock()
	})
	return nil
}

// Await implements tenure.Awaiter. The peer looks, once for all its clients.
func (c *Client) Await(outer context.Context, since tenure.State) (tenure.State, error) {
	if err := tenure.CheckName(since.Name); err != nil {
		return since, err
	}
	ctx, end, err := c.calls.Begin(outer)
	if err != nil {
		return since, err
	}
	defer end()
	r := request{Op: "await", Name: since.Name}
	for _, h := range since.Holders {
		r.Tokens = append(r.Tokens, strconv.FormatUint(h.Token, 10))
	}
	e, err := c.call(ctx, r)
	if err != nil || e.State == nil {
		return tenure.State{Name: since.Name}, c.final(outer, "observe", since.Name, err)
	}
	return *e.State, nil
}
