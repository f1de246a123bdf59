package widearea

import (
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/ycsb"
)

// client does one operation after the other at the replica of its site.
type client struct {
	*run
	site   int
	at     *replicasim.Member
	load   Load
	source ycsb.Source
	count  int // of operations, the present one included
	sent   time.Duration
}

// value is as long as in the paper's code, which keeps integers.
var value = make([]byte, 8)

// next has the next request arrive at the replica after d. It was sent half the
// local round trip earlier.
func (c *client) next(d time.Duration) {
	c.w.After(d, func() {
		c.count++
		c.sent = c.w.Now() - Local/2
		keys, read := c.load.Next(c.source)
		seen, names := c.begin(keys...), make([][]byte, len(keys))
		for i, key := range keys {
			names[i] = c.keys[key]
		}
		if read {
			c.at.GetAll(names, func(written []int64) {
				c.witness.read(keys, seen, written)
				c.ended(&c.reads[c.site])
			})
			return
		}
		wrote := func(rev int64, err error) {
			if err == nil {
				c.wrote(keys, seen, rev)
			} else {
				c.failed++
			}
			c.ended(&c.writes[c.site])
		}
		if len(keys) == 1 {
			c.at.Put(names[0], value, wrote)
		} else {
			c.at.PutAll(names, value, wrote)
		}
	})
}

// ended takes note of an answer, which reaches the client half a local round trip
// later, and goes on.
func (c *client) ended(samples *[]time.Duration) {
	c.done++
	if c.counts(c.count, c.sent) {
		*samples = append(*samples, c.w.Now()+Local/2-c.sent)
	}
	if c.For > 0 || c.count < c.Size.Requests {
		c.next(Local)
	}
}
