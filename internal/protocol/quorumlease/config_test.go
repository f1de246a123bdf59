package quorumlease

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A member has a name and a life, and a promise a length within bounds.
func TestConfigsAtTheLimits(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		fine bool
		is   error
	}{
		"nobody":           {Config{Boot: 1, TTL: ttl}, false, nil},
		"of no life":       {Config{Self: 1, TTL: ttl}, false, nil},
		"the shortest":     {Config{Self: 1, Boot: 1, TTL: 20 * time.Millisecond}, true, nil},
		"a shorter one":    {Config{Self: 1, Boot: 1, TTL: 20*time.Millisecond - 1}, false, ErrTTL},
		"the longest":      {Config{Self: 1, Boot: 1, TTL: 10 * time.Second}, true, nil},
		"a longer one":     {Config{Self: 1, Boot: 1, TTL: 10*time.Second + 1}, false, ErrTTL},
		"of earlier lives": {Config{Self: 1, Boot: 2, TTL: ttl, EarlierTTL: time.Second}, true, nil},
	} {
		if err := c.cfg.Check(); (err == nil) != c.fine || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want it fine: %v", name, err, c.fine)
		}
	}
}

// A grantor is bound for longer than a holder believes, by a hundredth each way and by 10 ms
// at least (R10).
func TestHowLongAPromiseBinds(t *testing.T) {
	const ms = time.Millisecond
	for ttl, want := range map[time.Duration]struct{ bound, believed time.Duration }{
		20 * ms:   {30 * ms, 20*ms - 200*time.Microsecond},
		1000 * ms: {1010 * ms, 990 * ms},
		2000 * ms: {2020 * ms, 1980 * ms},
		MaxTTL:    {10_100 * ms, 9_900 * ms},
	} {
		if bound, believed := Bound(ttl), Believed(ttl); bound != want.bound || believed != want.believed {
			t.Errorf("a promise of %v binds for %v and is believed for %v, want %v and %v", ttl, bound, believed, want.bound, want.believed)
		}
	}
}

// A promise that has run out, by a clock in doubt, is named in reports again, and the next one
// begins another chain: reports in between may have left it out.
func TestRevivedPromises(t *testing.T) {
	const ms = time.Millisecond
	log := Log{Term: 2, Last: 10}
	for name, c := range map[string]struct {
		since, now time.Duration // of the doubt; the promise runs out at 210 ms
		held, anew bool
	}{
		"it ran out before the doubt":         {211 * ms, 300 * ms, false, true},
		"when the doubt began":                {210 * ms, 300 * ms, false, true},
		"since":                               {209 * ms, 300 * ms, true, true},
		"just now":                            {100 * ms, 210 * ms, true, true},
		"it has not, and lasts longer so far": {100 * ms, 209 * ms, true, false},
	} {
		g := NewGrantor(config(1), at(0))
		g.Grant(at(0), 3, Request{Boot: 7, Seq: 1}, log)
		g.Doubt(at(c.since), at(c.now))
		if holders, _ := g.Holders(at(c.now)); (len(holders) == 1) != c.held {
			t.Errorf("%s: bound to %v, want to somebody: %v", name, holders, c.held)
		}
		p, ok := g.Grant(at(c.now+ms), 3, Request{Boot: 7, Seq: 2}, Log{Term: 2, Last: 20})
		if !ok || (p.Stamp == Stamp{2, 20}) != c.anew {
			t.Errorf("%s: the next promise is stamped %v (%v), want it fresh: %v", name, p.Stamp, ok, c.anew)
		}
		if p, _ := g.Grant(at(c.now+2*ms), 3, Request{Boot: 7, Seq: 3}, Log{Term: 2, Last: 30}); (p.Stamp == Stamp{2, 30}) {
			t.Errorf("%s: the promise after that begins a chain of its own", name)
		}
	}
	g := NewGrantor(config(1), at(0))
	g.Grant(at(0), 3, Request{Boot: 7, Seq: 1}, log)
	g.Doubt(at(200*ms), at(300*ms))
	g.Grant(at(310*ms), 3, Request{Boot: 7, Seq: 2}, log)
	g.Doubt(at(500*ms), at(800*ms)) // it ran out at 520 ms
	if holders, _ := g.Holders(at(800 * ms)); len(holders) != 1 {
		t.Error("a promise that was revived and made anew is not revived in another doubt")
	}

	cfg := config(1)
	cfg.EarlierTTL = time.Second
	g = NewGrantor(cfg, at(0))
	g.Doubt(at(100*ms), at(500*ms))
	for now, want := range map[time.Duration]bool{2020*ms - 1: true, 2020 * ms: false} {
		if _, all := g.Holders(at(now)); all != want {
			t.Errorf("promises of earlier lives, in doubt while they may last, bind at %v: %v, want %v", now, all, want)
		}
	}
}

// A request is known for as long as a promise that answers it may count, and no longer.
func TestRequestsThatMayBeAnswered(t *testing.T) {
	h := NewHolder(config(1))
	h.Ask(at(0))
	h.Ask(at(MaxTTL))
	if sent, ok := h.Sent(1); !ok || sent != at(0) {
		t.Errorf("a request that left %v ago is known: %v, from %v", MaxTTL, ok, sent)
	}
	h.Ask(at(MaxTTL + 1))
	if _, ok := h.Sent(1); ok || len(h.sent) != 2 {
		t.Errorf("a request that left longer ago is known: %v, of %d", ok, len(h.sent))
	}
	h.Promised(2, Promise{Boot: 1, Seq: 3, TTL: MaxTTL + 1}, Log{})
	if got := h.Until(voting(1, 2, 3)); got != 0 {
		t.Errorf("a promise that is longer than any counts until %v", got)
	}
	h.Promised(2, Promise{Boot: 1, Seq: 3, TTL: MaxTTL}, Log{})
	if got, want := h.Until(voting(1, 2, 3)), at(MaxTTL+1).Add(Believed(MaxTTL)); got != want {
		t.Errorf("the longest promise counts until %v, want %v", got, want)
	}
}

// A promise replaces earlier ones of its grantor, and no later one, until the grantor numbers
// its promises anew. A stamp that was met is no other stamp.
func TestPromisesReplaceEarlierOnes(t *testing.T) {
	h := NewHolder(config(1))
	met := Log{Term: 2, Received: 9}
	for i, c := range []struct {
		name  string
		seq   uint64
		until time.Duration
		stamp Stamp
		log   Log
		taken bool
		want  time.Duration // 0: none counts
	}{
		{"the first", 2, 100, Stamp{2, 9}, met, true, 100},
		{"the same again", 2, 400, Stamp{2, 9}, met, false, 100},
		{"an earlier one", 1, 400, Stamp{2, 9}, met, false, 100},
		{"a later one of the chain", 3, 200, Stamp{2, 9}, Log{}, true, 200},
		{"of another chain, further back in another log", 4, 300, Stamp{3, 5}, met, true, 0},
	} {
		if got := h.Take(2, c.seq, at(c.until), c.stamp, c.log); got != c.taken {
			t.Errorf("%s: taken %v, want %v", c.name, got, c.taken)
		}
		want := at(c.want)
		if c.want == 0 {
			want = 0
		}
		if got := h.Until(voting(1, 2, 3)); got != want {
			t.Errorf("%s (%d): the lease lasts until %v, want %v", c.name, i, got, want)
		}
	}
	h.Reached(Log{Term: 3, Commit: 5})
	h.Renumbered(2)
	if got := h.Until(voting(1, 2, 3)); got != at(300) {
		t.Errorf("when its grantor numbers anew a promise lasts until %v, want what it did", got)
	}
	if !h.Take(2, 1, at(500), Stamp{3, 5}, Log{}) || h.Until(voting(1, 2, 3)) != at(500) {
		t.Errorf("the first promise under new numbers is not taken: until %v", h.Until(voting(1, 2, 3)))
	}
}

// What a majority has is acknowledged: up to a change by the voters before it, and behind it by
// the voters behind it, once the former have the change.
func TestAcknowledged(t *testing.T) {
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	three := Memberships{{Index: 1, Voters: ids(1, 2, 3)}}
	for _, c := range []struct {
		name    string
		members Memberships
		has     []uint64 // by members 1, 2 and so on
		limit   uint64
		want    uint64
	}{
		{"a minority", three, []uint64{9}, 20, 0},
		{"a majority", three, []uint64{9, 7, 3}, 20, 7},
		{"no more than there is", three, []uint64{9, 9, 9}, 5, 5},
		{"a change that the voters before it have", three.With(Membership{5, ids(1, 2, 3, 4), nil}), []uint64{9, 9}, 20, 5},
		{"and those behind it a part of", three.With(Membership{5, ids(1, 2, 3, 4), nil}), []uint64{9, 9, 4, 3}, 20, 5},
		{"and those behind it, too", three.With(Membership{5, ids(1, 2, 3, 4), nil}), []uint64{9, 9, 8, 0}, 20, 8},
		{"a change that only those behind it have", three.With(Membership{5, ids(3, 4), nil}), []uint64{4, 4, 9, 9}, 20, 4},
		{"what holders lack is acknowledged all the same", Memberships{{Index: 1, Voters: ids(1, 2, 3), Learners: ids(4)}}, []uint64{9, 9, 0, 1}, 20, 9},
	} {
		var l Ledger
		l.Begin(3, c.members)
		for i, durable := range c.has {
			l.Report(machine.NodeID(i+1), Report{Boot: 1, Term: 3, Durable: durable, Holders: []Lifetime{{4, 1}}})
		}
		if got := l.Acknowledged(c.limit); got != c.want {
			t.Errorf("%s: acknowledged up to %d, want %d", c.name, got, c.want)
		}
	}
	var none Ledger
	if got := none.Acknowledged(9); got != 0 {
		t.Errorf("before a term is known %d is acknowledged", got)
	}
}

// A ledger knows what it was told at most, and goes back by no late word.
func TestALedgerDoesNotGoBack(t *testing.T) {
	h2 := []Lifetime{{2, 5}}
	var l Ledger
	l.Begin(3, voting(1, 2, 3))
	l.Report(1, Report{Boot: 5, Term: 4, Durable: 9})
	l.Report(3, Report{Boot: 5, Term: 4, Durable: 9})
	if got := l.Release(9); got != 0 {
		t.Errorf("by reports of a later term %d is released", got)
	}
	l.Report(2, Report{Boot: 5, Term: 3, Durable: 9})
	l.Report(2, Report{Boot: 5, Term: 3, Durable: 4})
	l.Report(1, Report{Boot: 5, Term: 3, Durable: 9, Holders: h2})
	l.Report(3, Report{Boot: 5, Term: 3, Durable: 9, Holders: h2})
	if got := l.Release(9); got != 9 {
		t.Errorf("a late word of the holder, and %d is released, want 9", got)
	}
	if got := l.Release(4); got != 9 {
		t.Errorf("released up to 9, and committed up to 4 by a late word, it is up to %d", got)
	}
	l.Report(2, Report{Boot: 6, Term: 3})
	if got := l.Holdings(); len(got) != 0 {
		t.Errorf("of a life that is over: %+v", got)
	}
}

// The patience with a holder ends half a promise and its least time after it fell behind, and
// that is when to look again. A stalled one is told in the order of members, and forgotten when
// it is none, or has caught up without promises.
func TestWhenPatienceEnds(t *testing.T) {
	const ms = time.Millisecond
	var l Ledger
	l.Begin(1, voting(1, 2, 3, 4))
	s := NewStalls(config(1))
	holders := func(ids ...machine.NodeID) {
		var list []Lifetime
		for _, id := range ids {
			list = append(list, Lifetime{id, 1})
		}
		l.Report(1, Report{Boot: 1, Term: 1, Durable: 90, Holders: list})
	}
	has := func(id machine.NodeID, durable, received uint64) {
		l.Report(id, Report{Boot: 1, Term: 1, Durable: durable, Received: received})
	}
	look := func(name string, now time.Duration, commit uint64, due machine.Mono, want ...machine.NodeID) {
		t.Helper()
		got := s.Look(at(now), commit, &l)
		if len(got) != len(want) {
			t.Errorf("%s: stalled are %v, want %v", name, got, want)
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("%s: stalled are %v, want %v", name, got, want)
			}
		}
		if s.Due() != due {
			t.Errorf("%s: to look again at %v, want %v", name, s.Due().Sub(at(0)), due.Sub(at(0)))
		}
	}
	if s.Due() != machine.Never {
		t.Errorf("nothing was looked at, and it is due at %v", s.Due())
	}
	holders(4, 2)
	look("both are behind", 0, 5, at(100*ms+1))
	has(4, 5, 5)
	has(2, 5, 5)
	look("both took 30 ms", 30*ms, 5, machine.Never)
	look("both are behind again", 100*ms, 6, at(100*ms+130*ms+1))
	has(2, 5, 6)
	look("one has come just so far, and there is more", 200*ms, 7, at(230*ms+1))
	look("the patience with the other ends at this moment", 230*ms, 7, at(230*ms+1))
	look("it has ended", 230*ms+1, 7, at(330*ms+1), 4)
	look("and with the first, too", 331*ms, 7, machine.Never, 2, 4)
	holders()
	look("without promises", 340*ms, 7, machine.Never, 2, 4)
	has(2, 5, 7)
	look("one has received what there is", 350*ms, 7, machine.Never, 4)
	l.Count(voting(1, 2, 3))
	look("the other is a member no more", 360*ms, 7, machine.Never)
	holders(3)
	look("a third is behind", 400*ms, 8, at(500*ms+1))
	holders()
	look("and holds nothing any more", 410*ms, 8, machine.Never)
	holders(3)
	look("and holds again", 505*ms, 8, at(605*ms+1))
	s.Reset()
	if s.Due() != machine.Never {
		t.Errorf("all is forgotten, and it is due at %v", s.Due())
	}
}
