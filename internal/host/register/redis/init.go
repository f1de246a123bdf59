package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tenure-lease/tenure/internal/host/register"
)

// Init makes a new store, of a set that is new as well: h.Set has to be random and never
// used before. To repeat it with the same header does nothing. ErrExists: the server
// has something under the prefix already, which Find may know.
//
// A server of a set in use that came back empty must not be made anew by Init: it has forgotten
// acknowledged writes, and the set would count it. See Restore.
func Init(ctx context.Context, o Options, h register.Header) error {
	if err := h.Check(); err != nil {
		return fmt.Errorf("redis %s: %w", o.Addr, err)
	}
	return o.plainly(ctx, func(c *goredis.Client, about server) error {
		return c.Eval(ctx, initLua, o.keys(""), encodeHeader(h), newSeal(), about.run, about.kept()).Err()
	})
}

// Find returns the header of the store that the server has under the prefix. With ErrStale it
// returns the header before the loss. It changes nothing.
func Find(ctx context.Context, o Options) (register.Header, error) {
	h, _, err := find(ctx, o)
	return h, err
}

func find(ctx context.Context, o Options) (h register.Header, seal string, err error) {
	err = o.plainly(ctx, func(c *goredis.Client, _ server) error {
		fields, err := c.HMGet(ctx, o.storeKey(), "header", "seal", "lost").Result()
		if err != nil {
			return err
		}
		header, ok := fields[0].(string)
		lost, isLost := fields[2].(string)
		if ok {
			if h, err = decodeHeader(header); err != nil {
				return err
			}
		}
		seal, _ = fields[1].(string)
		switch {
		case isLost:
			return fmt.Errorf("%w: %s", ErrStale, lost)
		case !ok || seal == "":
			return fmt.Errorf("%w: there is no store; make one (tenure lease init), or restore it if it was lost and other stores of its set were not (tenure lease restore)", register.ErrForeign)
		}
		return nil
	})
	return h, seal, err
}

// plainly runs f with a client that asks nothing of the store, once the server is met.
func (o *Options) plainly(ctx context.Context, f func(*goredis.Client, server) error) error {
	if err := o.validate(); err != nil {
		return err
	}
	c := o.client(opening, nil)
	defer c.Close()
	about, err := meet(ctx, c)
	if err == nil {
		err = f(c, about)
	}
	return o.trouble(err)
}

// newSeal returns a seal that no other store has.
func newSeal() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
