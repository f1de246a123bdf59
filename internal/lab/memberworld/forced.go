package memberworld

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A last write is one from before a majority is lost. Its revision is 0 if its outcome is not known.
type lastWrite struct {
	key, value string
	rev        int64
}

// forceAnew loses all members but one for good, while clients write, and has that one begin another cluster. Judged is that
// the cluster has all that the survivor knew, nothing that nobody wrote, and revisions beyond all that anybody was told.
func (c *cluster) forceAnew() {
	r := c.w.Rand("a lost majority")
	var live []*host
	for _, h := range c.hosts {
		if h.running() != nil && !h.removed {
			live = append(live, h)
		}
	}
	survivor := live[r.IntN(len(live))]
	c.w.Trace.Add("all but %s are about to be lost", survivor.name)
	others := slices.DeleteFunc(slices.Clone(live), func(h *host) bool { return h == survivor && len(live) > 1 })
	cl := c.client("last", others...)
	defer cl.Close()
	var writes []lastWrite
	highest, n := int64(0), 20+r.IntN(20)
	cut := r.IntN(2 * n) // in half of the worlds the survivor lacks the end
	if c.spec.Behind {
		cut = n / 3
	}
	const apart = 12 * time.Second
	until := c.w.Elapsed() + time.Hour
	for i := 0; i < n && c.w.Elapsed() < until; i++ {
		if i == cut {
			c.net.Isolate(survivor.name, apart)
			until = c.w.Elapsed() + apart - 3*time.Second // before it catches up
		}
		w := lastWrite{key: fmt.Sprintf("f/%d", i%5), value: fmt.Sprint(i)}
		ctx, cancel := within(2 * time.Second)
		resp, err := cl.Put(ctx, w.key, w.value)
		cancel()
		if err == nil {
			w.rev = resp.Header.Revision
			highest = max(highest, w.rev)
		}
		writes = append(writes, w)
		c.pause(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
	}
	for _, e := range c.settled {
		highest = max(highest, e.rev)
	}
	srv := survivor.running()
	if srv == nil {
		c.w.Fail("%s ended by itself", survivor.name)
		return
	}
	known := srv.Node.View().Revision()
	c.anew.Store(true)
	for _, h := range c.hosts {
		if h != survivor {
			h.hold(1)
			h.end(nil, empties)
		}
	}
	survivor.mu.Lock()
	survivor.flags.anew = true
	survivor.mu.Unlock()
	survivor.end(nil, []ending{exits, crashes}[r.IntN(2)])
	c.w.Count("clusters begun anew", 1)
	for _, when := range []string{"begun anew", "begun anew and started again"} {
		c.judgeAnew(when, survivor, writes, known, highest)
		if c.spec.Users {
			c.judgeRights(when, survivor)
		}
		survivor.end(nil, crashes) // the flag has no effect any more
		c.pause(time.Second)
	}
}

// judgeAnew judges the cluster of a survivor.
func (c *cluster) judgeAnew(when string, survivor *host, writes []lastWrite, known, highest int64) {
	cl := c.client("afterwards", survivor)
	defer cl.Close()
	var last, registers *clientv3.GetResponse
	var members *clientv3.MemberListResponse
	c.within(2*time.Minute, func(ctx context.Context) (err error) {
		if last, err = cl.Get(ctx, "f/", clientv3.WithPrefix()); err != nil {
			return err
		}
		if registers, err = cl.Get(ctx, "k/", clientv3.WithPrefix()); err != nil {
			return err
		}
		members, err = cl.MemberList(ctx)
		return err
	})
	if members == nil {
		return
	}
	if len(members.Members) != 1 {
		c.w.Fail("%s, there are %d members", when, len(members.Members))
	}
	if err := judgeLast(last, writes, known); err != nil {
		c.w.Fail("%s, with the survivor at revision %d: %v", when, known, err)
	}
	if err := judgeSettled(registers, c.settled); err != nil {
		c.w.Fail("%s: %v", when, err)
	}
	for _, w := range writes {
		if w.rev > known {
			c.w.Count("acknowledged writes that the survivor did not know", 1)
		} else if w.rev > 0 {
			c.w.Count("acknowledged writes that the survivor knew", 1)
		}
	}
	if last.Header.Revision <= highest {
		c.w.Fail("%s, the revision is %d, and clients were told %d", when, last.Header.Revision, highest)
	}
	var token int64
	c.within(30*time.Second, func(ctx context.Context) error {
		resp, err := cl.Put(ctx, "token "+when, "")
		if err == nil {
			token = resp.Header.Revision
		}
		return err
	})
	if token <= highest {
		c.w.Fail("%s, a new token is %d, and %d was given out before", when, token, highest)
	}
}

// judgeLast finds writes that the survivor knew and that are gone, and values that nobody wrote.
func judgeLast(got *clientv3.GetResponse, writes []lastWrite, known int64) error {
	found := map[string]lastWrite{}
	for _, kv := range got.Kvs {
		w := lastWrite{string(kv.Key), string(kv.Value), kv.ModRevision}
		found[w.key] = w
		tried := false
		for _, one := range writes {
			tried = tried || one.key == w.key && one.value == w.value && (one.rev == 0 || one.rev == w.rev)
		}
		if !tried {
			return fmt.Errorf("%s is %q at revision %d, which nobody wrote", w.key, w.value, w.rev)
		}
	}
	for _, w := range writes {
		if w.rev > 0 && w.rev <= known && found[w.key].rev < w.rev {
			return fmt.Errorf("%s was written %q at revision %d, and is %q at %d", w.key, w.value, w.rev, found[w.key].value, found[w.key].rev)
		}
	}
	return nil
}

// judgeSettled wants the registers as they were when all members agreed.
func judgeSettled(got *clientv3.GetResponse, log []event) error {
	want := map[string]event{}
	for _, e := range log {
		if strings.HasPrefix(e.key, "k/") {
			want[e.key] = e
		}
	}
	for _, kv := range got.Kvs {
		e := want[string(kv.Key)]
		if e.rev != kv.ModRevision || e.value != string(kv.Value) || e.deleted {
			return fmt.Errorf("the register %s is %q at revision %d, and was %+v when all agreed", kv.Key, kv.Value, kv.ModRevision, e)
		}
		delete(want, e.key)
	}
	for key, e := range want {
		if !e.deleted {
			return fmt.Errorf("the register %s is gone, and was %+v when all agreed", key, e)
		}
	}
	return nil
}
