package flease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tenure-lease/tenure"
)

// await answers a client when a name has other holders than it knows of.
func (s *session) await(r request) error {
	since := tenure.State{Name: r.Name}
	for _, token := range r.Tokens {
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return fmt.Errorf("a token: %w", err)
		}
		since.Holders = append(since.Holders, tenure.Holding{Token: n})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaits[r.ID] != nil || len(s.awaits) >= sessionClaimsMax {
		return fmt.Errorf("request %d is one too many: ids are used once, and a connection has at most %d such requests", r.ID, sessionClaimsMax)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.awaits[r.ID] = cancel
	s.minds.Go(func() {
		defer cancel()
		st, err := s.leaser.Await(ctx, since)
		s.mu.Lock()
		delete(s.awaits, r.ID)
		s.mu.Unlock()
		e := event{Event: "observed", ID: r.ID, State: &st}
		if err != nil {
			e.State = nil
			e = e.fill(err)
		}
		_ = s.lines.send(e)
	})
	return nil
}

// Await implements tenure.Awaiter. It is the peer that looks, once for all who ask.
func (c *Client) Await(outer context.Context, since tenure.State) (tenure.State, error) {
	if err := tenure.CheckName(since.Name); err != nil {
		return since, err
	}
	ctx, end, err := c.begin(outer)
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
