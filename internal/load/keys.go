package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Value is what each key has by default, of 256 bytes.
var Value = strings.Repeat("v", 256)

// some is how many keys are read.
const some = 100

// puts measures puts at some members.
func (l *Load) puts(ctx context.Context, members []int) (Result, error) {
	value := l.value()
	return l.Each(ctx, members, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, l.key(rand.IntN(l.keys())), value)
		return err
	})
}

func put(ctx context.Context, l *Load) (Result, error) { return l.puts(ctx, l.members()) }

func putAlone(ctx context.Context, l *Load) (Result, error) {
	return l.Alone().puts(ctx, []int{l.Leader()})
}

// Gets measures gets of single keys at some members.
func (l *Load) Gets(ctx context.Context, members []int, options ...clientv3.OpOption) (Result, error) {
	c, err := l.Connect(l.Leader())
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	value := l.value()
	for i := range some {
		if _, err := c.Put(ctx, l.key(i), value); err != nil {
			return Result{}, err
		}
	}
	// A member that has answered a linearizable get has applied the puts.
	for _, m := range members {
		c, err := l.Connect(m)
		if err != nil {
			return Result{}, err
		}
		_, err = c.Get(ctx, l.key(0))
		c.Close()
		if err != nil {
			return Result{}, err
		}
	}
	return l.Each(ctx, members, func(ctx context.Context, c *clientv3.Client) error {
		got, err := c.Get(ctx, l.key(rand.IntN(some)), options...)
		if err == nil && len(got.Kvs) != 1 {
			err = fmt.Errorf("a get of a key that was put returns %d", len(got.Kvs))
		}
		return err
	})
}

func getLeader(ctx context.Context, l *Load) (Result, error) { return l.Gets(ctx, []int{l.Leader()}) }

func getFollower(ctx context.Context, l *Load) (Result, error) { return l.Gets(ctx, l.followers()) }

func getAlone(ctx context.Context, l *Load) (Result, error) {
	return l.Alone().Gets(ctx, []int{l.Leader()})
}

func getSerializable(ctx context.Context, l *Load) (Result, error) {
	return l.Gets(ctx, l.members(), clientv3.WithSerializable())
}
