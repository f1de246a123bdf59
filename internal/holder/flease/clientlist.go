package flease

import (
	"context"
	"encoding/json"

	"github.com/tenure-lease/tenure"
)

var _ tenure.Lister = (*Client)(nil)

// list answers a client with names, in as many lines as they need.
func (s *session) list(r request) error {
	return s.look(r.ID, "names", func(ctx context.Context) event {
		names, err := s.leaser.List(ctx, r.Name)
		if err != nil {
			return event{Event: "names"}.fill(err)
		}
		return s.pages(r.ID, names)
	})
}

// pages sends names, and returns the last event of them unsent.
func (s *session) pages(id uint64, names []string) event {
	for {
		n, size := 0, 0
		for ; n < len(names); n++ {
			b, _ := json.Marshal(names[n]) // a string: never fails
			if size += len(b) + 1; n > 0 && size > lineBytesMax/2 {
				break
			}
		}
		e := event{Event: "names", ID: id, Names: names[:n], More: n < len(names)}
		if !e.More || s.lines.send(e) != nil {
			return e
		}
		names = names[n:]
	}
}

// List implements tenure.Lister. The peer asks all others, see Leaser.List.
func (c *Client) List(outer context.Context, prefix string) ([]string, error) {
	ctx, end, err := c.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	e, err := c.call(ctx, request{Op: "list", Name: prefix})
	if err != nil {
		return nil, c.final(outer, "list", prefix, err)
	}
	return e.Names, nil
}
