package redisworld

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// operator looks after the servers: a server that has lost something is restored from the
// others.
type operator struct {
	*scene
	p *world.Process
}

func (o *operator) options(v *server) redis.Options {
	return redis.Options{Addr: v.addr(), Obsolete: storage.Obsolete, Dial: o.dialer(o.p)}
}

// work until the end.
func (o *operator) work() {
	for !o.stopping() {
		o.p.Sleep(2 * time.Second)
		o.round()
	}
}

// round opens every store, and restores one that has lost something.
func (o *operator) round() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*o.plan.header.Quiet())
	defer cancel()
	all, stores := true, make([]*redis.Store, len(o.servers))
	defer func() {
		for _, s := range stores {
			if s != nil {
				s.Close()
			}
		}
	}()
	var lost []*server
	began := o.losses()
	for i, v := range o.servers {
		s, err := redis.Open(ctx, o.options(v))
		if stores[i] = s; err == nil {
			continue
		}
		stores[i], all = nil, false
		if errors.Is(err, redis.ErrStale) || errors.Is(err, register.ErrForeign) {
			lost = append(lost, v)
		}
	}
	for _, v := range lost {
		var others []*redis.Store
		for _, s := range stores {
			if s != nil {
				others = append(others, s)
			}
		}
		h := o.plan.header
		h.Index = v.index
		if err := redis.Restore(ctx, o.options(v), h, others...); err != nil {
			o.w.Trace.Add("restore %s: %v", v.name, err)
			o.w.Count("restores that failed", 1)
			continue
		}
		o.w.Trace.Add("%s is restored", v.name)
		o.w.Count("restores", 1)
		v.mu.Lock()
		v.promoted = false
		v.mu.Unlock()
	}
	if all {
		o.allCount(began)
	}
}
