package main

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// peers are flease's, in this process as in any that embeds the engine.
type peers struct {
	all     []*engine.Peer
	leasers []*engine.Leaser
}

func startFlease(ctx context.Context, _ string) (contestant, error) {
	p := &peers{}
	m := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}
	var listeners []net.Listener
	for i := range members {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		m.Addrs[machine.NodeID(i+1)] = l.Addr().String()
	}
	for _, l := range listeners {
		one, err := engine.Start(ctx, engine.Config{
			Self: l.Addr().String(), Listener: l, Membership: engine.Fixed(m), TMax: ttl, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			p.close()
			return nil, err
		}
		p.all, p.leasers = append(p.all, one), append(p.leasers, one.Leaser())
	}
	for _, one := range p.all { // t_max and 3ε of silence
		if err := one.Ready(ctx); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *peers) caller(_ context.Context, i int) (map[string]call, error) {
	l := p.leasers[i%len(p.leasers)]
	return map[string]call{
		"turn": func(ctx context.Context, name string) error {
			lease, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
			if err != nil {
				return err
			}
			return lease.Release(ctx)
		},
		"take": func(ctx context.Context, name string) error {
			_, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
			return err
		},
	}, nil
}

func (p *peers) cpu() time.Duration { return 0 }

func (p *peers) close() {
	for _, one := range p.all {
		_ = one.Close()
	}
}
