package diff

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// watchStep sends a message on the stream where its outcome is certain, and
// waits for the answers that it must have.
func (c *comparison) watchStep(ctx context.Context, s Step) (answer, detail string) {
	req := resolve(s.Req, c.revision, nil).(*pb.WatchRequest)
	switch r := req.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		return "", c.create(ctx, req, r.CreateRequest, s.Member)
	case *pb.WatchRequest_CancelRequest:
		return "", c.cancel(ctx, req, r.CancelRequest.WatchId)
	case *pb.WatchRequest_ProgressRequest:
		return "", c.sync(ctx)
	default:
		return "", c.past.send(req)
	}
}

func (c *comparison) create(ctx context.Context, req *pb.WatchRequest, create *pb.WatchCreateRequest, member int) string {
	p := c.past
	compacted := create.StartRevision > 0 && create.StartRevision < c.a.compacted
	switch {
	case compacted: // a stream of its own, see the package comment
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		var err error
		if p, err = c.open(ctx, member); err != nil {
			return err.Error()
		}
	case create.StartRevision > c.revision:
		p = c.future
	}
	for _, s := range []*stream{p.a, p.b} {
		s.mu.Lock()
		s.asked = create
		s.mu.Unlock()
	}
	if detail := p.ask(ctx, req, func(s *stream) *int { return &s.created }); detail != "" {
		return detail
	}
	p.a.mu.Lock()
	for id := range p.a.watches {
		controls := p.a.controls[id]
		if _, known := p.active[id]; !known && controls[len(controls)-1].Created {
			p.active[id] = create.StartRevision
		}
	}
	accepted := len(p.active) > 0
	p.a.mu.Unlock()
	if compacted && accepted {
		return p.await(ctx, 1, func(s *stream) *int { return &s.canceled })
	}
	return ""
}

// cancel ends a watch at a moment when no event can be on its way to it: etcd may
// send such an event or not.
func (c *comparison) cancel(ctx context.Context, req *pb.WatchRequest, id int64) string {
	p := c.past
	if _, ok := p.active[id]; ok {
		if detail := c.sync(ctx); detail != "" {
			return detail
		}
	} else if start, ok := c.future.active[id]; ok {
		if start <= c.revision {
			return ""
		}
		p = c.future
	} else { // neither knows it: no answer, and nothing else happens
		return p.send(req)
	}
	delete(p.active, id)
	return p.ask(ctx, req, func(s *stream) *int { return &s.canceled })
}

func (p *pair) send(req *pb.WatchRequest) string {
	for _, s := range []*stream{p.a, p.b} {
		if err := s.rpc.Send(req); err != nil {
			return fmt.Sprintf("%s: send: %v", s.target.Name, err)
		}
	}
	return ""
}

// ask sends a request that is answered, which the given counter counts, and
// compares the streams after the answers.
func (p *pair) ask(ctx context.Context, req *pb.WatchRequest, counter func(*stream) *int) string {
	p.a.mu.Lock()
	want := *counter(p.a) + 1
	p.a.mu.Unlock()
	if detail := p.catchUp(ctx); detail != "" {
		return detail
	}
	if detail := p.send(req); detail != "" {
		return detail
	}
	return p.await(ctx, want, counter)
}

func (p *pair) await(ctx context.Context, want int, counter func(*stream) *int) string {
	waiting, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for _, s := range []*stream{p.a, p.b} {
		if !s.until(waiting, func() bool { return *counter(s) >= want || s.fault != "" }) {
			return s.target.Name + " does not answer"
		}
	}
	return p.settle(ctx)
}

// sync asks the past stream for progress until both targets have announced the
// store's revision: then every event up to it was received, and every watch has
// caught up. It wants two announcements, as the first may answer a request that
// was repeated before the last watch was created.
func (c *comparison) sync(ctx context.Context) string {
	if len(c.past.active) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if detail := c.past.catchUp(ctx); detail != "" {
		return detail
	}
	for _, s := range []*stream{c.past.a, c.past.b} {
		for range 2 {
			if fault := s.announce(ctx, c.revision); fault != "" {
				return fault
			}
		}
	}
	for _, s := range []*stream{c.past.a, c.past.b} {
		s.mu.Lock()
		progress := s.progress
		s.mu.Unlock()
		if progress > c.revision {
			return fmt.Sprintf("%s: progress to %d, ahead of the store at %d", s.target.Name, progress, c.revision)
		}
	}
	return c.past.settle(ctx)
}

// announce gets one more progress notification, for a revision at least.
func (s *stream) announce(ctx context.Context, revision int64) (fault string) {
	s.mu.Lock()
	before := s.notified
	s.mu.Unlock()
	req := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	for ctx.Err() == nil { // a request made while a watch catches up is dropped
		if err := s.rpc.Send(req); err != nil {
			return fmt.Sprintf("%s: send: %v", s.target.Name, err)
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		done := s.until(short, func() bool { return s.notified > before && s.progress >= revision || s.fault != "" })
		cancel()
		if done {
			return ""
		}
	}
	return fmt.Sprintf("%s: no progress notification for revision %d", s.target.Name, revision)
}
