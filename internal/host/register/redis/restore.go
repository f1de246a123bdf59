package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Restore makes a server count again that lost writes, or puts a new one in the place
// of a server that is gone for good (which must then never come back). h is the header it
// had. Others are open stores of the set, at least Of - (Of-1)/2 of them, and must not be
// in use by anybody else here. It
//
//  1. shuts out all processes that have the store open;
//  2. waits 2 Quiet: each write that was under way before, perhaps with this server's
//     consent, is then complete at the others, or its writer has given up, as proposers of
//     agreements do after Quiet (disklease.RankedOverNotes);
//  3. forgets everything, and copies all registers and notes from the others: a majority
//     of the others and this one together hold every write that ever was complete;
//  4. writes the header.
//
// The only store of its set (Of is 1) has no others. Its content is lost, agreements and records
// too, and after the wait none of it is a lease in force. Its tokens continue at the wall clock's milliseconds
// since 1970. They grow only as long as that clock does and a lease changes hands less than
// once a millisecond.
//
// A store that is in order is refused. If you know that its data is an old copy, remove its
// keys first.
//
// If it is broken off the server stays shut out, and Restore may be called again.
func Restore(ctx context.Context, o Options, h register.Header, others ...*Store) error {
	if err := o.mayRestore(ctx, h, others); err != nil {
		return err
	}
	seal := newSeal()
	err := o.plainly(ctx, func(c *goredis.Client, about server) error {
		if err := c.Eval(ctx, unsealLua, o.keys(""), seal, encodeHeader(h)).Err(); err != nil {
			return err
		}
		if err := wait(ctx, RestoreTakes(h)); err != nil {
			return err
		}
		for left := 1; left > 0; {
			var err error
			if left, err = c.Eval(ctx, wipeLua, o.keys(""), seal).Int(); err != nil {
				return err
			}
		}
		return c.Eval(ctx, resealLua, o.keys(""), seal, about.run, about.kept()).Err()
	})
	if err != nil {
		return err
	}
	s := newStore(o, h, seal)
	defer s.Close()
	floor := uint64(0)
	if h.Of == 1 {
		floor = uint64(time.Now().UnixMilli())
	}
	for _, from := range others {
		f, err := s.copyFrom(ctx, from)
		if err != nil {
			return err
		}
		floor = max(floor, f)
	}
	return o.trouble(s.client.Eval(ctx, finishScript.source, o.keys(""), seal, encodeHeader(h), encodeSeq(floor)).Err())
}

// RestoreTakes is how long Restore waits, its step 2.
func RestoreTakes(h register.Header) time.Duration { return 2 * h.Quiet() }

// mayRestore returns an error if a Restore would do harm.
func (o *Options) mayRestore(ctx context.Context, h register.Header, others []*Store) error {
	if err := h.Check(); err != nil {
		return fmt.Errorf("redis %s: %w", o.Addr, err)
	}
	if has, err := Find(ctx, *o); err == nil && has == h {
		return fmt.Errorf("redis %s: the store is in order and needs no restoring", o.Addr)
	}
	indexes := map[int]bool{h.Index: true}
	for _, s := range others {
		same := s.header
		same.Index = h.Index
		if same != h || indexes[s.header.Index] {
			return fmt.Errorf("redis %s: %s is not another store of the same set", o.Addr, s.options.Addr)
		}
		indexes[s.header.Index] = true
	}
	if need := h.Of - (h.Of-1)/2; h.Of > 1 && len(others) < need {
		return fmt.Errorf("redis %s: a restore needs %d other stores of its set, and %d are given: fewer may lack completed writes",
			o.Addr, need, len(others))
	}
	return nil
}

// copyFrom copies the registers of another store. It returns its floor.
func (s *Store) copyFrom(ctx context.Context, from *Store) (floor uint64, err error) {
	names, err := from.index(ctx, "0", "1")
	if err != nil {
		return 0, from.options.trouble(err)
	}
	ask := []register.Op{{Op: quorumregister.Query{}}} // for the floor, though there be no names
	for _, name := range names {
		ask = append(ask, register.Op{Name: name, Op: quorumregister.Query{}})
	}
	var tell []register.Op
	for i, reply := range from.Do(ask) {
		if reply.Err != nil {
			return 0, reply.Err
		}
		state := reply.Value.(quorumregister.State)
		floor = max(floor, state.Floor)
		if state.Version.Seq > 0 {
			tell = append(tell, register.Op{Name: ask[i].Name, Op: quorumregister.Put{Version: state.Version, Data: state.Data}})
		}
		for _, n := range state.Notes {
			tell = append(tell, register.Op{Name: ask[i].Name, Op: quorumregister.PutNote(n)})
		}
	}
	for _, reply := range s.Do(tell) {
		if reply.Err != nil {
			return 0, reply.Err
		}
	}
	return floor, ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
