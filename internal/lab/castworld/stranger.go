package castworld

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// overhear remembers what members say first when they connect.
func (c *cast) overhear(dial func(context.Context, string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		conn, err := dial(ctx, to)
		if err != nil {
			return nil, err
		}
		return &overheard{Conn: conn, c: c}, nil
	}
}

type overheard struct {
	net.Conn
	c    *cast
	once sync.Once
}

func (o *overheard) Write(b []byte) (int, error) {
	o.once.Do(func() {
		o.c.mu.Lock()
		defer o.c.mu.Unlock()
		if len(o.c.heard) < 20 {
			o.c.heard = append(o.c.heard, slices.Clone(b))
		}
	})
	return o.Conn.Write(b)
}

// intrude has a stranger speak to a member: nothing, half a greeting, a message that a member has
// sent once, and noise after each.
func (c *cast) intrude(h *host, r *rand.Rand) {
	p := c.w.Start(fmt.Sprint("stranger", r.Uint64()))
	defer func() {
		p.End()
		c.net.Exit(p)
	}()
	says := [][]byte{nil, []byte("TENUREPR\x01\x00\x01\x00")}
	c.mu.Lock()
	if len(c.heard) > 0 {
		says = append(says, c.heard[r.IntN(len(c.heard))])
		c.w.Count("introductions repeated", 1)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.over, 5*time.Second)
	defer cancel()
	for _, say := range says {
		conn, err := c.net.Dialer(p)(ctx, addr(h.id))
		if err != nil {
			continue
		}
		noise := make([]byte, r.IntN(4096))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write(say); err == nil {
			p.Sleep(time.Duration(r.Int64N(int64(time.Second))))
			_, _ = conn.Write(noise)
		}
		p.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		_ = conn.Close()
	}
}
