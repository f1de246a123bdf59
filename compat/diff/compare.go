package diff

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Mismatch is the first difference found.
type Mismatch struct {
	Index   int      // of the step
	Step    string   // resolved as the first target got it
	Detail  string   // the two answers
	History []string // the steps before it and the first target's answers, latest last
}

func (m *Mismatch) Error() string {
	var b strings.Builder
	for _, h := range m.History {
		fmt.Fprintf(&b, "%s\n", h)
	}
	fmt.Fprintf(&b, "step %d: %s\n%s", m.Index, m.Step, m.Detail)
	return b.String()
}

// historyShown is how many steps a Mismatch shows.
const historyShown = 12

// Compare runs the steps against two servers that both are empty, or hold the
// same. It returns a *Mismatch, another error when it could not run, or nil.
func Compare(ctx context.Context, a, b *Target, steps []Step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := newComparison(ctx, a, b)
	if err != nil {
		return err
	}
	var history []string
	for i, s := range steps {
		s.Member %= max(len(a.conns), len(b.conns))
		resolved := Step{s.Method, resolve(s.Req, c.revision, a.granted), s.Member}.String()
		answer, detail := c.step(ctx, s)
		if detail == "" && (i == len(steps)-1 || i%25 == 24) {
			if detail = c.sync(ctx); detail == "" {
				detail = c.settle(ctx)
			}
		}
		if detail != "" {
			return &Mismatch{
				Index: i, Step: resolved, Detail: detail,
				History: history[max(0, len(history)-historyShown):],
			}
		}
		history = append(history, fmt.Sprintf("%4d %s -> %s", i, resolved, answer))
	}
	return nil
}

// comparison is the state of a run.
type comparison struct {
	a, b     *Target
	revision int64 // of the stores

	// Watches that begin at or before the store's revision share one stream.
	// Those that begin later have another, because a stream with such a watch
	// gets no progress notifications before its revision is reached. Where there
	// are followers, each stream is at another of them.
	past, future *pair
}

// pair is a Watch stream of each target, that were sent the same.
type pair struct {
	a, b   *stream
	active map[int64]int64 // start revisions of the watches created and not cancelled
}

func newComparison(ctx context.Context, a, b *Target) (*comparison, error) {
	c := &comparison{a: a, b: b}
	first := a.call(ctx, Step{Method: methodRange, Req: &pb.RangeRequest{Key: []byte("a")}}, 0)
	if first.err != "" {
		return nil, fmt.Errorf("%s does not answer: %s", a.Name, first.err)
	}
	c.revision = first.msg.(*pb.RangeResponse).Header.Revision
	var err error
	if c.past, err = c.open(ctx, 1); err != nil {
		return nil, err
	}
	c.future, err = c.open(ctx, 2)
	return c, err
}

func (c *comparison) open(ctx context.Context, member int) (*pair, error) {
	a, err := c.a.watch(ctx, member)
	if err != nil {
		return nil, err
	}
	b, err := c.b.watch(ctx, member)
	if err != nil {
		return nil, err
	}
	return &pair{a: a, b: b, active: map[int64]int64{}}, nil
}

// step makes one step on both targets and says how their answers differ.
func (c *comparison) step(ctx context.Context, s Step) (answer, detail string) {
	if s.Method == methodWatch {
		return c.watchStep(ctx, s)
	}
	compact, isCompact := s.Req.(*pb.CompactionRequest)
	if isCompact { // a watch that is behind would race with the compaction
		if detail := c.sync(ctx); detail != "" {
			return "", detail
		}
		compact = resolve(compact, c.revision, nil).(*pb.CompactionRequest)
	}
	answers := make(chan reply)
	go func() { answers <- c.b.call(ctx, s, c.revision) }()
	a := c.a.call(ctx, s, c.revision)
	b := <-answers
	if !a.equal(b) {
		return "", fmt.Sprintf("  %s: %s\n  %s: %s", c.a.Name, a, c.b.Name, b)
	}
	if a.err == "" {
		if h := a.msg.(interface{ GetHeader() *pb.ResponseHeader }).GetHeader(); h != nil {
			c.revision = max(c.revision, h.Revision)
		}
		if isCompact {
			c.a.compacted = compact.Revision
		}
	}
	return a.String(), ""
}

// settleTime is how long two streams may take to agree.
const settleTime = 5 * time.Second

// settle waits until the targets' streams agree and says how they do not.
func (c *comparison) settle(ctx context.Context) string {
	for _, p := range []*pair{c.past, c.future} {
		if detail := p.settle(ctx); detail != "" {
			return detail
		}
	}
	return ""
}

func (p *pair) settle(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		p.a.mu.Lock()
		aChanged := p.a.changed
		p.a.mu.Unlock()
		p.b.mu.Lock()
		bChanged := p.b.changed
		p.b.mu.Unlock()
		detail := difference(p.a, p.b)
		if detail == "" {
			return ""
		}
		select {
		case <-aChanged:
		case <-bChanged:
		case <-ctx.Done():
			return fmt.Sprintf("%s and %s: %s", p.a.target.Name, p.b.target.Name, detail)
		}
	}
}
