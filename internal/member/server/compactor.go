package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Retention is the amount of history that automatic compaction keeps, as etcd's
// --auto-compaction-mode and --auto-compaction-retention set it. The zero value keeps all until
// a client compacts.
type Retention struct {
	Period    time.Duration // keep this much time of history
	Revisions int64         // or this many revisions
}

// ParseRetention reads etcd's two flags. In periodic mode a plain number means
// hours.
func ParseRetention(mode, retention string) (r Retention, err error) {
	n, numErr := strconv.ParseInt(retention, 10, 64)
	switch {
	case retention == "" || numErr == nil && n == 0:
		return Retention{}, nil
	case numErr == nil && n < 0:
		return r, fmt.Errorf("retention %q is negative: history cannot be kept less than not at all", retention)
	case mode == "revision" && numErr == nil:
		return Retention{Revisions: n}, nil
	case mode == "revision":
		return r, fmt.Errorf("retention %q: mode revision wants a number of revisions", retention)
	case mode != "" && mode != "periodic":
		return r, fmt.Errorf("mode %q: want periodic or revision", mode)
	case numErr == nil && n > int64(math.MaxInt64/time.Hour): // it would be negative, and all of history compacted
		return r, fmt.Errorf("retention %q: %d hours at most can be counted; leave it out to keep all of history", retention, math.MaxInt64/time.Hour)
	case numErr == nil:
		return Retention{Period: time.Duration(n) * time.Hour}, nil
	}
	if r.Period, err = time.ParseDuration(retention); err != nil || r.Period <= 0 {
		return r, fmt.Errorf("retention %q: mode periodic wants a duration such as 30m or a number of hours", retention)
	}
	return r, nil
}

// compactor compacts now and then, at the member that leads.
type compactor struct {
	node compacted
	keep Retention
	// seen are revisions and when they were the present one, oldest first.
	seen []revisionAt
}

// compacted is what of a node.Node the compactor needs.
type compacted interface {
	ID() uint64
	Leader() (id, term uint64, lostFor time.Duration)
	View() kv.View
	Propose(context.Context, proto.Message) (proto.Message, error)
}

type revisionAt struct {
	revision int64
	at       time.Time
}

// interval is how often the compactor looks: etcd's values.
func (c *compactor) interval() time.Duration {
	if c.keep.Revisions > 0 {
		return 5 * time.Minute
	}
	return max(time.Second, min(c.keep.Period, time.Hour)/10)
}

// run goes on until the context ends.
func (c *compactor) run(ctx context.Context, fail func(error)) {
	if c.keep == (Retention{}) {
		return
	}
	tick := time.NewTicker(c.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			to := c.target(c.node.View().Revision(), now)
			if leader, _, _ := c.node.Leader(); to <= 0 || leader != c.node.ID() {
				continue
			}
			_, err := c.node.Propose(caller.Member(ctx), &pb.CompactionRequest{Revision: to})
			if err != nil && !errors.Is(err, kv.ErrCompacted) && ctx.Err() == nil {
				fail(err) // the next look tries again
			}
		}
	}
}

// target is the revision to compact to, 0 for none.
func (c *compactor) target(revision int64, now time.Time) (to int64) {
	if c.keep.Revisions > 0 {
		return max(0, revision-c.keep.Revisions)
	}
	c.seen = append(c.seen, revisionAt{revision, now})
	for len(c.seen) > 0 && now.Sub(c.seen[0].at) >= c.keep.Period {
		to = c.seen[0].revision
		c.seen = c.seen[1:]
	}
	return to
}
