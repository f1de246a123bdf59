package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// redlock is the algorithm of Redis's documentation ("Distributed Locks with Redis"):
// a random value set with a time to live on a majority. No token, no renewal by itself.
type redlock struct {
	clients []*goredis.Client
	ttl     time.Duration
}

func newRedlock(addrs []string) *redlock {
	l := &redlock{ttl: 10 * time.Second}
	for _, addr := range addrs {
		l.clients = append(l.clients, goredis.NewClient(&goredis.Options{Addr: addr, DisableIdentity: true, PoolSize: 100}))
	}
	return l
}

func (l *redlock) close() {
	for _, c := range l.clients {
		_ = c.Close()
	}
}

var (
	extendLua  = goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
	releaseLua = goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
)

// acquire returns the value that names the holder, or "".
func (l *redlock) acquire(ctx context.Context, name string) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	value := hex.EncodeToString(b[:])
	begun := time.Now()
	won := l.majority(func(c *goredis.Client) bool {
		return c.SetNX(ctx, name, value, l.ttl).Val()
	})
	if drift := l.ttl/100 + 2*time.Millisecond; !won || time.Since(begun) > l.ttl-drift {
		l.release(ctx, name, value)
		return ""
	}
	return value
}

func (l *redlock) extend(ctx context.Context, name, value string) bool {
	return l.majority(func(c *goredis.Client) bool {
		n, err := extendLua.Run(ctx, c, []string{name}, value, l.ttl.Milliseconds()).Int()
		return err == nil && n == 1
	})
}

func (l *redlock) release(ctx context.Context, name, value string) bool {
	return l.majority(func(c *goredis.Client) bool {
		n, err := releaseLua.Run(ctx, c, []string{name}, value).Int()
		return err == nil && n == 1
	})
}

// majority asks all at once, and waits for all as Redlock's clients do.
func (l *redlock) majority(ask func(*goredis.Client) bool) bool {
	answers := make([]bool, len(l.clients))
	var wait sync.WaitGroup
	for i, c := range l.clients {
		wait.Go(func() { answers[i] = ask(c) })
	}
	wait.Wait()
	yes := 0
	for _, a := range answers {
		if a {
			yes++
		}
	}
	return yes > len(l.clients)/2
}
