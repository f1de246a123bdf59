package flease

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestBatchesAreLimited: operations beyond a batch's limit, in number or in bytes, all go
// into the next ones.
func TestBatchesAreLimited(t *testing.T) {
	for what, size := range map[string]int{"operations": 8, "bytes": maxName} {
		p, err := New(testConfig(1, 3))
		if err != nil {
			t.Fatal(err)
		}
		now := machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))}
		p.Wake(now)
		p.Ready()
		now.Mono, now.Wall = now.Mono.Add(p.quarantine), now.Wall+machine.Wall(p.quarantine)
		p.Wake(now)
		p.Ready()
		const asked = maxOps + 100
		ops := make([]Op, asked)
		for i := range ops {
			ops[i] = Op{Kind: Read, Ref: uint32(i), Ballot: BallotOf(TimeOf(now.Wall), uint16(i), 2), Name: fmt.Sprintf("%0*d", size, i)}
		}
		// Their WRITEs carry all the names and holders back.
		holder := strings.Repeat("h", maxHolder)
		for half := range 2 {
			p.Receive(now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: ops[half*asked/2 : (half+1)*asked/2]}})
		}
		for i := range ops {
			ops[i].Kind, ops[i].Value = Write, Value{{Token: ops[i].Ballot, Until: p.c, Holder: holder, Owner: 2, Incarnation: 1, Slots: 1}}
			p.Receive(now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: ops[i : i+1]}})
			ops[i] = Op{Kind: Peek, Ref: uint32(i), Ballot: ops[i].Ballot, Name: ops[i].Name}
		}
		p.Receive(now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: ops}})
		got, batches := 0, 0
		for rd := p.Ready(); len(rd.Sends) > 0; rd = p.Ready() {
			for _, env := range rd.Sends {
				b := env.Body.(*Batch)
				data, err := b.MarshalBinary()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if len(data) > MaxBatch/2+64<<10 {
					t.Errorf("%s: a batch of %d bytes", what, len(data))
				}
				got += len(b.Ops)
				batches++
			}
			if got < 3*asked && rd.Alarm > now.Mono {
				t.Fatalf("%s: it does not ask to be woken for the rest", what)
			}
		}
		if got != 3*asked || batches < 3 {
			t.Errorf("%s: %d answers in %d batches, want %d", what, got, batches, 3*asked)
		}
	}
}

// TestNamesAreLimited: a name that is too long is taken from nobody.
func TestNamesAreLimited(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	for more := range 2 {
		name := strings.Repeat("x", maxName+more)
		b := &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: []Op{{Kind: Read, Ballot: BallotOf(p.c, 0, 2), Name: name}}}
		c.step(1, machine.Envelope{From: 2, To: 1, Body: b})
		if _, known := p.names[name]; known != (more == 0) {
			t.Errorf("a name of %d bytes is remembered: %v", len(name), known)
		}
		data, err := b.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Batch).UnmarshalBinary(data); errors.Is(err, errBatch) != (more == 1) {
			t.Errorf("a name of %d bytes decodes: %v", len(name), err)
		}
	}
}

// TestSharesAreLimited: no more than MaxHoldings share a resource; the next one waits.
func TestSharesAreLimited(t *testing.T) {
	c := newCluster(t, 1, nil)
	for i := range uint64(MaxHoldings + 1) {
		c.do(1, Acquire{ID: i, Name: "a", Slots: Shared, Holder: strings.Repeat("h", maxHolder)})
	}
	if s := c.peers[1].Stats(); s.Held != MaxHoldings {
		t.Fatalf("%d share the resource, want %d", s.Held, MaxHoldings)
	}
	c.do(1, Release{ID: 5})
	c.pass(2 * c.peers[1].cfg.poll())
	if s := c.peers[1].Stats(); s.Held != MaxHoldings {
		t.Errorf("%d share after one has left", s.Held)
	}
}

// TestBallotsOfTwoLives: a peer that restores what it had never draws a ballot again that it
// may have drawn and not recorded, though its clock is the slowest and it restarts at once.
func TestBallotsOfTwoLives(t *testing.T) {
	now := machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))}
	draws := func(inc uint32) (first, last Ballot) {
		cfg := testConfig(1, 3)
		cfg.Incarnation, cfg.Restore = inc, []*Record{{}}
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Wake(now)
		p.Step(now, Acquire{ID: 1, Name: "a"})
		for p.Ready(); first == 0; now.Mono, now.Wall = now.Mono.Add(time.Millisecond/2), now.Wall+machine.Wall(time.Millisecond/2) {
			p.Wake(now)
			for _, env := range p.Ready().Sends {
				first = env.Body.(*Batch).Ops[0].Ballot
			}
		}
		// It hears of the fastest clock.
		fast := BallotOf(p.c+p.eps, 0, 2)
		p.Receive(now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: []Op{{Kind: Read, Ballot: fast, Name: "b"}}}})
		return first, p.ballot()
	}
	_, before := draws(1)
	after, _ := draws(2)
	if after <= before || after.Time() == before.Time() {
		t.Errorf("the first ballot of the second life is %v, the last of the first %v", after, before)
	}
}

// TestBallotsGrow: a sequence that is full borrows the next millisecond.
func TestBallotsGrow(t *testing.T) {
	var h hlc
	last := Ballot(0)
	for range 3 << seqBits {
		k := h.next(1000, 5)
		if k <= last || k.Member() != 5 {
			t.Fatalf("ballot %v is drawn after %v", k, last)
		}
		last = k
	}
	if last.Time() != 1002 {
		t.Errorf("the last one is %v, want one of millisecond 1002", last)
	}
}
