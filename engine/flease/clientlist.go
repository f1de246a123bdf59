package flease

import (
	"context"
	"encoding/json"

	"github.com/tenure-lease/tenure"
)

var _ tenure.Lister = (*Client)(nil)

// list answers a client with names, as many in a line as have room.
func (s *session) list(r request) {
	names, err := s.leaser.List(s.ctx, r.Name)
	if err != nil {
		_ = s.lines.send(event{Event: "names", ID: r.ID}.fill(err))
		return
	}
	for more := true; more; {
		n, size := 0, 0
		for ; n < len(names); n++ {
			b, _ := json.Marshal(names[n]) // a string: never fails
			if size += len(b) + 1; n > 0 && size > lineBytesMax/2 {
				break
			}
		}
		more = n < len(names)
		if s.lines.send(event{Event: "names", ID: r.ID, Names: names[:n], More: more}) != nil {
			return
		}
		names = names[n:]
	}
}

// List implements tenure.Lister: the peer asks all others, see Leaser.List.
func (c *Client) List(outer context.Context, prefix string) ([]string, error) {
	ctx, end, err := c.begin(outer)
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
