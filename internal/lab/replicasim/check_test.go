package replicasim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
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
	lease := func(f func(k *checks, w *sim.World, l *held)) func(*Cluster) {
		return func(c *Cluster) {
			l := &held{id: 1, ttl: 5 * time.Second}
			f(&c.checks, c.w, l)
		}
	}
	entered := func(until, now time.Duration, tokens ...int64) func(*Cluster) {
		return func(c *Cluster) {
			member(c, 1) // which is down: nothing that a locker does comes about
			for i, token := range tokens {
				k := &locker{c: c, id: i, stop: true, round: 1, created: token, until: 1 << 62, held: &held{ttl: time.Second}}
				k.enter()
				k.until = until
				c.w.Run(now - c.w.Now())
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
			[]func(*Cluster){lease(func(k *checks, w *sim.World, l *held) { k.answered(w, l, 0, 0, replica.AnswerLease{}) })},
			[]func(*Cluster){lease(func(k *checks, w *sim.World, l *held) {
				l.gone = 1
				k.answered(w, l, 0, 0, replica.AnswerLease{})
			})}},
		{"a lease that ended is renewed",
			[]func(*Cluster){lease(func(k *checks, w *sim.World, l *held) {
				l.gone = 1
				k.answered(w, l, time.Second, 0, replica.AnswerLease{TTL: 5000})
			})},
			[]func(*Cluster){lease(func(k *checks, w *sim.World, l *held) {
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
		{"a member may read less than another has shown",
			[]func(*Cluster){leased(1, 4), showState(2, 5)},
			[]func(*Cluster){leased(1, 5), showState(2, 5)}},
		{"a member gets a lease to read less than was shown",
			[]func(*Cluster){showState(2, 5), leased(1, 4)},
			[]func(*Cluster){showState(2, 5), leased(1, 5)}},
		{"a read finds less than was shown when it set out",
			[]func(*Cluster){showState(2, 5), findState(1, 4)},
			[]func(*Cluster){showState(2, 5), findState(1, 5)}},
		{"a survey finds half of a transaction",
			[]func(*Cluster){landing(3, "s0.1", 0, 1), wrote(3, "s0.1", 0, 1), surveyOf(3, land{"s0.1"})},
			[]func(*Cluster){landing(3, "s0.1", 0, 1), wrote(3, "s0.1", 0, 1), surveyOf(3, land{"s0.1", "s0.1"})}},
		{"a survey is told a revision before a write that had ended",
			[]func(*Cluster){landing(3, "s0.1", 0), wrote(3, "s0.1", 0), surveyOf(2, land{})},
			[]func(*Cluster){landing(3, "s0.1", 0), wrote(3, "s0.1", 0), surveyOf(3, land{"s0.1"})}},
		{"an operation takes long when nothing is amiss",
			[]func(*Cluster){took(3*time.Second, 1<<62)},
			[]func(*Cluster){took(3*time.Second, 4*time.Second)}},
		{"members show different events",
			[]func(*Cluster){store(1, "a"), store(2, "b")},
			[]func(*Cluster){store(1, "a"), store(2, "a")}},
		{"a member shows different events in its next life",
			[]func(*Cluster){store(1, "a"), func(c *Cluster) { c.checks.rebooted(member(c, 1)) }, store(1, "b")},
			[]func(*Cluster){store(1, "a"), func(c *Cluster) { c.checks.rebooted(member(c, 1)) }, store(1, "a")}},
	} {
		for _, bad := range []bool{true, false} {
			c := &Cluster{w: sim.NewWorld(1), checks: newChecks()}
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
	m := &Member{Process: sim.NewProcess[replica.Input, replica.Outcome](c.w, nil, machine.NodeID(id), 0), c: c}
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

// leased publishes at a member that its readers need no more than an index.
func leased(id uint64, index uint64) func(*Cluster) {
	return func(c *Cluster) {
		m := member(c, id)
		m.Start(idle{})
		m.lease = replica.ReadLease{Until: machine.Never, Index: index}
		c.mayRead(m)
	}
}

// showState has a member show the state of an index.
func showState(id uint64, index uint64) func(*Cluster) {
	return func(c *Cluster) {
		m := member(c, id)
		m.state = replica.NewApplier(machine.NodeID(id), 1)
		for i := uint64(2); i <= index; i++ {
			if err := m.state.Apply(&raftpb.Entry{Index: &i, Term: new(uint64(1))}); err != nil {
				panic(err)
			}
		}
		m.onApplied(false)
		c.onPublish(m)
	}
}

// findState has a reader at a member find the state of an index.
func findState(id uint64, index uint64) func(*Cluster) {
	return func(c *Cluster) { c.judgeRead(member(c, id), func(kv.View) {})(view{index: index}) }
}

// landing has a revision put some of the surveyors' keys.
func landing(rev int64, value string, keys ...int) func(*Cluster) {
	return func(c *Cluster) {
		for _, i := range keys {
			c.checks.revisions.noteSurveys(0, rev, string(surveyKey(i)), value)
		}
	}
}

// wrote is a surveyor's write, surveyOf a read that comes after it.
func wrote(rev int64, value string, keys ...int) func(*Cluster) {
	return func(c *Cluster) {
		o := survey{kind: 'w', value: value, rev: rev, call: 1, end: 2}
		for _, i := range keys {
			o.keys[i] = true
		}
		c.checks.surveys = append(c.checks.surveys, o)
	}
}

func surveyOf(rev int64, found land) func(*Cluster) {
	return func(c *Cluster) {
		all := [surveyed]bool{true, true, true, true, true}
		c.checks.surveys = append(c.checks.surveys, survey{kind: 'r', keys: all, read: found, rev: rev, call: 3, end: 4})
	}
}

// took is an operation of some length, begun in a calm that ends.
func took(d, end time.Duration) func(*Cluster) {
	return func(c *Cluster) {
		c.w.Run(2 * time.Second)
		c.checks.calm = calm{from: time.Second, to: 1 << 62, bound: 2500 * time.Millisecond}
		c.w.Run(d)
		c.checks.calm.end(end)
		c.checks.timely(c.w, "a client", 2*time.Second)
	}
}

// idle is a machine that does nothing.
type idle struct{}

func (idle) Step(machine.Now, replica.Input) {}
func (idle) Wake(machine.Now)                {}
func (idle) Ready() machine.Ready[replica.Outcome] {
	return machine.Ready[replica.Outcome]{Alarm: machine.Never}
}
