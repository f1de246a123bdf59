package sim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A checker that cannot complain checks nothing. Each case shows one a violation
// that it must see, and the same without it.
func TestCheckers(t *testing.T) {
	done := func(kind byte, value string, known bool, told string) func(*Cluster) {
		return func(c *Cluster) {
			c.checks.operation(0, op{kind: kind, key: "k", old: "o", new: value}, told, 1, 2, known)
		}
	}
	puts := func(values ...string) func(*Cluster) {
		return func(c *Cluster) {
			for _, v := range values {
				c.checks.revisions.puts[v]++
			}
		}
	}
	lease := func(f func(k *checks, w *World, l *held)) func(*Cluster) {
		return func(c *Cluster) {
			l := &held{id: 1, ttl: 5 * time.Second}
			f(&c.checks, c.w, l)
		}
	}
	entered := func(until, now time.Duration, tokens ...int64) func(*Cluster) {
		return func(c *Cluster) {
			for i, token := range tokens {
				k := &locker{c: c, id: i, round: 1, created: token, until: 1 << 62, held: &held{ttl: time.Second}}
				k.enter()
				k.until = until
				c.w.now = now
			}
		}
	}
	for _, tc := range []struct {
		name string
		bad  []func(*Cluster)
		good []func(*Cluster)
	}{
		{"an acknowledged write is lost",
			[]func(*Cluster){done('w', "a", true, "")},
			[]func(*Cluster){done('w', "a", true, ""), puts("a")}},
		{"a write takes effect twice",
			[]func(*Cluster){done('w', "a", false, ""), puts("a", "a")},
			[]func(*Cluster){done('w', "a", false, ""), puts("a")}},
		{"a swap that failed takes effect",
			[]func(*Cluster){done('c', "a", true, "false"), puts("a")},
			[]func(*Cluster){done('c', "a", true, "false")}},
		{"a request that was given up for good takes effect",
			[]func(*Cluster){func(c *Cluster) { c.checks.void = []string{"a"} }, puts("a")},
			[]func(*Cluster){func(c *Cluster) { c.checks.void = []string{"a"} }}},
		{"a living lease is called unknown",
			[]func(*Cluster){lease(func(k *checks, w *World, l *held) { k.answered(w, l, 0, 0, replica.AnswerLease{}) })},
			[]func(*Cluster){lease(func(k *checks, w *World, l *held) {
				l.gone = 1
				k.answered(w, l, 0, 0, replica.AnswerLease{})
			})}},
		{"a lease that ended is renewed",
			[]func(*Cluster){lease(func(k *checks, w *World, l *held) {
				l.gone = 1
				k.answered(w, l, time.Second, 0, replica.AnswerLease{TTL: 5000})
			})},
			[]func(*Cluster){lease(func(k *checks, w *World, l *held) {
				k.answered(w, l, time.Second, 0, replica.AnswerLease{TTL: 5000})
			})}},
		{"two are inside",
			[]func(*Cluster){entered(2*time.Second, time.Second, 5, 6)},
			[]func(*Cluster){entered(2*time.Second, 3*time.Second, 5, 6)}},
		{"a token goes back",
			[]func(*Cluster){entered(0, time.Second, 6, 5)},
			[]func(*Cluster){entered(0, time.Second, 5, 6)}},
		{"a read goes back in time",
			[]func(*Cluster){history("", "1", "")},
			[]func(*Cluster){history("", "1", "1")}},
		{"members show different events",
			[]func(*Cluster){store(1, "a"), store(2, "b")},
			[]func(*Cluster){store(1, "a"), store(2, "a")}},
		{"a member shows different events in its next life",
			[]func(*Cluster){store(1, "a"), func(c *Cluster) { c.checks.rebooted(member(c, 1)) }, store(1, "b")},
			[]func(*Cluster){store(1, "a"), func(c *Cluster) { c.checks.rebooted(member(c, 1)) }, store(1, "a")}},
	} {
		for _, bad := range []bool{true, false} {
			c := &Cluster{w: NewWorld(1), checks: newChecks()}
			steps := tc.good
			if bad {
				steps = tc.bad
			}
			for _, f := range steps {
				f(c)
			}
			if err := c.Check(); (err != nil) != bad {
				t.Errorf("%s: bad %v: got %v", tc.name, bad, err)
			}
		}
	}
}

// history is a write of 1 between reads.
func history(reads ...string) func(*Cluster) {
	return func(c *Cluster) {
		at := int64(0)
		for i, value := range reads {
			if i == 1 {
				c.checks.operation(0, op{kind: 'w', key: "k", new: "1"}, "", at, at+1, true)
				c.checks.revisions.puts["1"]++
			} else {
				c.checks.operation(0, op{kind: 'r', key: "k"}, value, at, at+1, true)
			}
			at += 2
		}
	}
}

func member(c *Cluster, id uint64) *Member {
	for _, m := range c.members {
		if uint64(m.ID) == id {
			return m
		}
	}
	m := &Member{Host: &Host{ID: machine.NodeID(id)}}
	c.members = append(c.members, m)
	return m
}

// store gives a member a state in which one value was put.
func store(id uint64, value string) func(*Cluster) {
	return func(c *Cluster) {
		m := member(c, id)
		m.state = replica.NewApplier(machine.NodeID(id), 1)
		if _, err := m.state.Store().Put(&pb.PutRequest{Key: []byte("k"), Value: []byte(value)}); err != nil {
			panic(err)
		}
		c.checks.watchEvents(c.w, m)
	}
}
