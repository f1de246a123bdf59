package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Store is a register.Store on one server.
type Store struct {
	options Options
	header  register.Header
	seal    string
	client  *goredis.Client
	warning atomic.Pointer[string]

	// The fields below belong to Do.
	now     func() time.Time // may stand still in suspend: then less is forgotten
	samples map[string]sample
	dropped time.Time
	chores  []*call
}

var _ register.Store = (*Store)(nil)

// Open opens the store that Init made. The error wraps ErrStale, ErrReplica, ErrEvicts,
// errCluster, or register.ErrForeign, ErrNewer or ErrDamaged, or is the network's.
func Open(ctx context.Context, o Options) (*Store, error) {
	h, seal, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	s := newStore(o, h, seal)
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.Close()
		return nil, o.trouble(err)
	}
	return s, nil
}

func newStore(o Options, h register.Header, seal string) *Store {
	s := &Store{options: o, header: h, seal: seal, now: time.Now, samples: map[string]sample{}}
	s.warning.Store(new(string))
	if o.patience == 0 {
		o.patience = patience(h)
	}
	s.client = o.client(o.patience, s.arrive)
	return s
}

// patience is how long to wait for a server. It is far longer than an answer takes: a
// connection that is given up has to be made anew and leaves the fate of its writes open.
// It is shorter than a lease can bear.
func patience(h register.Header) time.Duration {
	return min(max(10*h.Delay, h.Term/8), h.Term/2)
}

// Header implements register.Store.
func (s *Store) Header() register.Header { return s.header }

// Warning says how the server can disappoint, as of the latest connection; "" if it is
// as it should be, or if the other stores of the set make up for it.
func (s *Store) Warning() string {
	if w := *s.warning.Load(); w != "" {
		return "redis " + s.options.Addr + ": " + w
	}
	return ""
}

// Close implements register.Store.
func (s *Store) Close() error { return s.client.Close() }

// batch is how many operations share a round trip at most.
const batch = 1000

// Do implements register.Store. An error from the network leaves open whether the
// operations that have it were done or may yet be. An operation that fails is not
// repeated.
func (s *Store) Do(ops []register.Op) []register.Reply {
	s.dropSamples()
	replies := make([]register.Reply, 0, len(ops))
	for some := range slices.Chunk(ops, batch) {
		replies = append(replies, s.do(some)...)
	}
	return replies
}

func (s *Store) do(ops []register.Op) []register.Reply {
	calls := make([]*call, len(ops))
	for i, op := range ops {
		calls[i] = s.call(op)
	}
	ctx := context.Background() // the sockets have deadlines
	run(ctx, s.client, append(calls, s.chores...))
	s.chores = nil

	replies := make([]register.Reply, len(ops))
	var leaving []*call
	var of []int
	for i, op := range ops {
		reply, err := calls[i].reply()
		var seen shown
		switch op.Op.(type) {
		case quorumregister.Query, register.Leave:
			if err == nil {
				seen, err = decodeShown(reply)
			}
		}
		if err != nil {
			replies[i].Err = s.options.trouble(err)
			continue
		}
		switch op.Op.(type) {
		case quorumregister.Query:
			replies[i].Value = seen.State
			s.chore(op.Name, seen)
		case register.Leave:
			if c := s.forget(op.Name, seen, append(seen.left, op.Writer), true); c != nil {
				leaving, of = append(leaving, c), append(of, i)
			}
		}
	}
	if len(leaving) > 0 {
		run(ctx, s.client, leaving)
		for j, c := range leaving {
			_, err := c.reply()
			replies[of[j]].Err = s.options.trouble(err)
		}
	}
	return replies
}

// call returns the script call for an operation.
func (s *Store) call(op register.Op) *call {
	c := &call{keys: s.options.keys(op.Name)}
	switch x := op.Op.(type) {
	case quorumregister.Query, register.Enter: // to which an answer, and its connection, is enough
		c.script, c.args = queryScript, []any{s.seal}
	case quorumregister.Put:
		c.script, c.args = putScript, []any{s.seal, op.Name, encodeVersion(x.Version), x.Data}
	case quorumregister.PutNote:
		c.script, c.args = noteScript, []any{s.seal, op.Name, x.Writer[:], encodeNote(quorumregister.Note(x))}
	case register.Leave:
		c.script, c.args = leaveScript, []any{s.seal, op.Name, op.Writer[:]}
	default:
		panic(fmt.Sprintf("redis: %T is no operation on a register", op.Op))
	}
	return c
}

// Names implements register.Store. It asks in small steps that hold nobody else up.
func (s *Store) Names() ([]string, error) {
	names, err := s.index(context.Background(), "1")
	if err != nil {
		return nil, s.options.trouble(err)
	}
	return names, nil
}

// index returns the names whose score is one of those given: "1" with data, "0" with notes
// only.
func (s *Store) index(ctx context.Context, scores ...string) ([]string, error) {
	var names []string
	for cursor := uint64(0); ; {
		pairs, next, err := s.client.ZScan(ctx, s.options.keys("")[2], cursor, "", batch).Result()
		if err != nil {
			return nil, err
		}
		for pair := range slices.Chunk(pairs, 2) {
			if len(pair) == 2 && slices.Contains(scores, pair[1]) {
				names = append(names, pair[0])
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	// An emptied server has no names, but that does not mean that there are none.
	seal, err := s.client.HGet(ctx, s.options.storeKey(), "seal").Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, err
	}
	if seal != s.seal {
		return nil, errGone
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
