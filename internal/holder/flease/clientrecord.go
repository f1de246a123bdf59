package flease

import (
	"context"
	"fmt"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

var _ tenure.Recorder = (*Client)(nil)

// record answers a client with the record of a name.
func (s *session) record(r request) error {
	return s.look(r.ID, "record", func(ctx context.Context) event {
		record, err := s.leaser.Record(ctx, r.Name)
		if err != nil {
			return event{Event: "record"}.fill(err)
		}
		return event{Event: "record", Record: record, None: record == nil}
	})
}

// setRecord sets the record of a lease that a client holds. Its number is drawn here, in the order of the client's
// requests: a request that the client has given up must not be numbered behind a later one.
func (s *session) setRecord(r request) error {
	s.mu.Lock()
	var lease *claim
	var number uint64
	if len(r.IDs) == 1 {
		if x := s.claims[r.IDs[0]]; x != nil && !x.lost && !x.released {
			lease = x.lease
		}
		if lease != nil {
			number = lease.nextRecord()
		}
	}
	s.mu.Unlock()
	return s.look(r.ID, "recorded", func(ctx context.Context) event {
		err := error(errSilent)
		if lease != nil {
			err = s.leaser.setRecord(ctx, lease, number, r.Record)
		}
		if err != nil {
			return event{Event: "recorded"}.fill(err)
		}
		return event{Event: "recorded"}
	})
}

// Record implements tenure.Recorder.
func (c *Client) Record(outer context.Context, name string) ([]byte, error) {
	if err := tenure.CheckName(name); err != nil {
		return nil, err
	}
	ctx, end, err := c.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	e, err := c.call(ctx, request{Op: "record", Name: name})
	switch {
	case err != nil:
		return nil, c.final(outer, "read the record of", name, err)
	case e.None:
		return nil, nil
	}
	return append([]byte{}, e.Record...), nil
}

// SetRecord implements tenure.Recorder.
func (c *Client) SetRecord(ctx context.Context, held tenure.Lease, record []byte) error {
	l, ok := held.(*clientLease)
	if !ok || l.conn.client != c {
		return holder.ErrForeign
	}
	return holder.Record(ctx, c.calls, l, record, func(ctx context.Context) error {
		n := l.conn
		id, answer, err := n.ask(request{Op: "set record", IDs: []uint64{l.id}, Record: record}, nil)
		if err == nil {
			select {
			case e := <-answer:
				return e.err()
			case <-n.ctx.Done():
				err = context.Cause(n.ctx)
			case <-ctx.Done():
				err = context.Cause(ctx)
				_ = n.say(request{Op: "cancel", ID: id})
			}
		}
		n.unask(id)
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	})
}
