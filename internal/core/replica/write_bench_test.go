package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// BenchmarkWrite has three members replicate puts, one and 85 in a turn, at the leader and at a
// follower, in both orders, with all members holding read leases. Messages arrive at once, so
// that nothing but machines and Appliers is measured:
//
//	go test ./internal/core/replica -run '^$' -bench Write -benchtime 2000x -benchmem
func BenchmarkWrite(b *testing.B) {
	for _, policy := range []quorumlease.Policy{quorumlease.All, quorumlease.AllByKey} {
		for _, puts := range []int{1, 85} {
			for at := range 2 {
				b.Run(fmt.Sprintf("%s/puts=%d/member=%d", policy, puts, at+1), func(b *testing.B) {
					benchWrite(b, policy, puts, at)
				})
			}
		}
	}
}

func benchWrite(b *testing.B, policy quorumlease.Policy, puts, at int) {
	g := newBenchGroup(b, policy)
	body, err := EncodeRequest(&pb.PutRequest{Key: []byte("k"), Value: make([]byte, 256)})
	if err != nil {
		b.Fatal(err)
	}
	m := g.members[at]
	m.done = 0
	id := uint64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for range puts {
			id++
			m.r.Step(machine.Now{Mono: g.now}, Propose{ID: id, Body: body})
		}
		g.ready(m)
		g.deliver()
	}
	if b.StopTimer(); m.done != b.N*puts {
		b.Fatalf("%d of %d puts are done", m.done, b.N*puts)
	}
}

// benchGroup are members whose messages arrive in order, and whose disks are fast.
type benchGroup struct {
	b       *testing.B
	now     machine.Mono
	members []*benchMember
	wire    []machine.Envelope
}

type benchMember struct {
	r    *Replica
	a    *Applier
	done int // results
}

// newBenchGroup returns three, of which the first leads.
func newBenchGroup(b *testing.B, policy quorumlease.Policy) *benchGroup {
	g := &benchGroup{b: b, now: machine.Mono(time.Hour)}
	for id := machine.NodeID(1); id <= 3; id++ {
		a := NewApplier(id, 1)
		a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}}))
		r, err := New(Config{
			ID: id, Boot: 1, Tick: 100 * time.Millisecond, ElectionTicks: 10,
			Log: Genesis([]machine.NodeID{1, 2, 3}), Restored: a.Restored(),
			ReadLeases: ReadLeases{Policy: policy, Idle: -1},
		}, machine.Now{Mono: g.now})
		if err != nil {
			b.Fatal(err)
		}
		g.members = append(g.members, &benchMember{r: r, a: a})
	}
	if err := g.members[0].r.raft.Campaign(); err != nil {
		b.Fatal(err)
	}
	g.ready(g.members[0])
	g.deliver()
	for range 50 { // until all hold a lease
		g.now = g.now.Add(20 * time.Millisecond)
		for _, m := range g.members {
			m.r.Wake(machine.Now{Mono: g.now})
			g.ready(m)
			g.deliver()
		}
	}
	return g
}

// ready does what a driver does.
func (g *benchGroup) ready(m *benchMember) {
	rd := m.r.Ready()
	g.wire = append(g.wire, rd.Sends...)
	for _, p := range rd.Persists {
		g.wire = append(g.wire, p.Then...)
	}
	for _, out := range rd.Outcomes {
		committed, ok := out.(Committed)
		if !ok {
			continue
		}
		for _, e := range committed.Entries {
			if err := m.a.Apply(e); err != nil {
				g.b.Fatal(err)
			}
		}
		applied, results := m.a.Take()
		m.done += len(results)
		m.r.Step(machine.Now{Mono: g.now}, applied)
		g.ready(m)
	}
}

func (g *benchGroup) deliver() {
	for len(g.wire) > 0 {
		env := g.wire[0]
		g.wire = g.wire[1:]
		m := g.members[env.To-1]
		m.r.Receive(machine.Now{Mono: g.now}, env)
		g.ready(m)
	}
}
