package registertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// writer returns the ID of a claim, a new one for each n.
func writer(n int) machine.ID { return machine.ID{1, byte(n >> 8), byte(n), 0xff} }

func version(seq uint64, n int) machine.Version {
	return machine.Version{Seq: seq, Writer: writer(n)}
}

// do performs one operation.
func (p *probe) do(s register.Store, name string, n int, op any) any {
	r := s.Do([]register.Op{{Name: name, Writer: writer(n), Op: op}})
	if len(r) != 1 {
		p.must(fmt.Errorf("%d replies to one operation", len(r)))
	}
	if r[0].Err != nil {
		p.must(fmt.Errorf("%T on %.20q: %w", op, name, r[0].Err))
	}
	return r[0].Value
}

func (p *probe) put(s register.Store, name string, n int, v machine.Version, data string) {
	p.do(s, name, n, quorumregister.Put{Version: v, Data: []byte(data)})
}

func (p *probe) note(s register.Store, name string, n int, seq uint64, data string) {
	p.do(s, name, n, quorumregister.PutNote{Writer: writer(n), Seq: seq, Data: []byte(data)})
}

// query asks a store, with the notes in order.
func (p *probe) query(s register.Store, name string) quorumregister.State {
	st, ok := p.do(s, name, 999, quorumregister.Query{}).(quorumregister.State)
	if !ok {
		p.must(fmt.Errorf("the reply to a Query is no State"))
	}
	slices.SortFunc(st.Notes, func(a, b quorumregister.Note) int { return a.Writer.Compare(b.Writer) })
	return st
}

// wantShown wants a register to show a version with data, and a floor that is no less.
func (p *probe) wantShown(s register.Store, name string, v machine.Version, data string) {
	if got := p.query(s, name); got.Version != v || string(got.Data) != data {
		p.errorf("%.20q shows version %v with %.20q, want %v with %.20q", name, got.Version, got.Data, v, data)
	}
}

// notes wants a register to show these notes, as "writer:seq:data".
func (p *probe) notes(s register.Store, name string, want ...string) {
	var got []string
	for _, n := range p.query(s, name).Notes {
		got = append(got, fmt.Sprintf("%d:%d:%s", n.Writer[2], n.Seq, n.Data))
	}
	if !slices.Equal(got, want) {
		p.errorf("%.20q shows notes %q, want %q", name, got, want)
	}
}

// each runs a check of a single store on every store, opened twice.
func each(run func(p *probe, a, b register.Store)) func(*probe) {
	return func(p *probe) {
		a, b := p.stores(), p.stores()
		for i := range a {
			run(p, a[i], b[i])
		}
	}
}

var checks = slices.Concat(storeChecks, sharingChecks, failureChecks)

var storeChecks = []check{
	{"UnwrittenIsEmpty", each(func(p *probe, a, _ register.Store) {
		st := p.query(a, "x")
		if st.Version != (machine.Version{}) || len(st.Data) > 0 || len(st.Notes) > 0 {
			p.errorf("shows %+v", st)
		}
		if names, err := a.Names(); err != nil || len(names) > 0 {
			p.errorf("names %q, %v", names, err)
		}
	})},
	{"TheGreaterVersionWins", each(func(p *probe, a, b register.Store) {
		p.put(a, "x", 1, version(2, 1), "two")
		p.wantShown(b, "x", version(2, 1), "two")
		p.put(b, "x", 2, version(5, 2), "five")
		p.wantShown(a, "x", version(5, 2), "five")
		p.put(a, "x", 1, version(3, 1), "late, after its own earlier one")
		p.wantShown(a, "x", version(5, 2), "five")
		p.put(a, "x", 3, version(4, 3), "late, its first")
		p.wantShown(b, "x", version(5, 2), "five")
		p.put(a, "x", 1, version(5, 1), "same Seq, smaller writer")
		p.wantShown(b, "x", version(5, 2), "five")
		p.put(a, "x", 3, version(5, 3), "same Seq, greater writer")
		p.wantShown(b, "x", version(5, 3), "same Seq, greater writer")
		p.put(b, "x", 2, version(4, 2), "late, after its own greater one")
		p.wantShown(a, "x", version(5, 3), "same Seq, greater writer")
	})},
	{"WhatAnotherWroteIsWrittenBack", each(func(p *probe, a, b register.Store) {
		p.put(a, "x", 1, version(2, 1), "mine")
		p.put(a, "x", 1, version(7, 2), "another's, by me")
		p.wantShown(b, "x", version(7, 2), "another's, by me")
		p.put(b, "x", 2, version(8, 2), "his own")
		p.wantShown(a, "x", version(8, 2), "his own")
	})},
	{"OneNoteAWriter", each(func(p *probe, a, b register.Store) {
		p.note(a, "x", 1, 1, "one")
		p.notes(b, "x", "1:1:one")
		p.note(a, "x", 1, 3, "three")
		p.note(b, "x", 2, 1, "another's")
		p.notes(a, "x", "1:3:three", "2:1:another's")
		p.note(a, "x", 1, 2, "late")
		p.notes(b, "x", "1:3:three", "2:1:another's")
		p.put(a, "x", 1, version(1, 1), "data")
		p.note(a, "x", 1, 10, "")
		p.notes(b, "x", "1:10:", "2:1:another's")
		p.wantShown(b, "x", version(1, 1), "data")
		p.put(b, "x", 3, version(2, 3), "data")
		p.notes(a, "x", "1:10:", "2:1:another's")
	})},
	{"NamesAreApart", each(func(p *probe, a, b register.Store) {
		names := []string{"x", "y", "X", "x/y", "../x", "x\x00", "ä\xff", "x y\n", strings.Repeat("n", register.MaxName)}
		for i, name := range names {
			p.put(a, name, 1, version(uint64(i+1), 1), name)
			p.note(a, name, 1, 1, name)
		}
		p.note(a, "only noted", 1, 1, "n")
		for i, name := range names {
			p.wantShown(b, name, version(uint64(i+1), 1), name)
			p.notes(b, name, "1:1:"+name)
		}
		slices.Sort(names)
		for _, s := range []register.Store{a, b} {
			if got, err := s.Names(); err != nil || !slices.Equal(got, names) {
				p.errorf("names %q, %v; want %q", got, err, names)
			}
		}
	})},
	{"AllSizes", each(func(p *probe, a, b register.Store) {
		random := rand.New(rand.NewPCG(1, 2))
		bytes := func(n int) string {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			return string(data)
		}
		for i, size := range []int{register.MaxData, 0, 1, 511, 512, 513, register.MaxData - 1, register.MaxData} {
			data, note := bytes(size), bytes(min(size, register.MaxNote))
			v := version(uint64(i+1), 1)
			p.put(a, "x", 1, v, data)
			p.note(a, "x", 1, v.Seq, note)
			p.wantShown(b, "x", v, data)
			p.notes(b, "x", fmt.Sprintf("1:%d:%s", v.Seq, note))
		}
		p.put(a, "zeros", 1, version(1, 1), string(make([]byte, register.MaxData)))
		p.wantShown(b, "zeros", version(1, 1), string(make([]byte, register.MaxData)))
	})},
	{"DataIsCopied", each(func(p *probe, a, _ register.Store) {
		data := []byte("data")
		p.do(a, "x", 1, quorumregister.Put{Version: version(1, 1), Data: data})
		p.do(a, "x", 1, quorumregister.PutNote{Writer: writer(1), Seq: 1, Data: data})
		copy(data, "gone")
		p.wantShown(a, "x", version(1, 1), "data")
		p.notes(a, "x", "1:1:data")
	})},
	{"ManyAtOnce", each(func(p *probe, a, b register.Store) {
		const n = 100
		var puts, notes, queries []register.Op
		name := func(i int) string { return fmt.Sprint("name ", i) }
		for i := range n {
			op := register.Op{Name: name(i), Writer: writer(i)}
			op.Op = quorumregister.Put{Version: version(uint64(i+1), i), Data: []byte(name(i))}
			puts = append(puts, op)
			op.Op = quorumregister.PutNote{Writer: writer(i), Seq: 1, Data: []byte(name(i))}
			notes = append(notes, op)
			op.Op = quorumregister.Query{}
			queries = append(queries, op)
		}
		for _, ops := range [][]register.Op{puts, notes} {
			for i, r := range a.Do(ops) {
				if r.Err != nil {
					p.errorf("operation %d: %w", i, r.Err)
				}
			}
		}
		replies := b.Do(queries)
		if len(replies) != n {
			p.must(fmt.Errorf("%d replies to %d operations", len(replies), n))
		}
		for i, r := range replies {
			st, _ := r.Value.(quorumregister.State)
			if r.Err != nil || st.Version.Seq != uint64(i+1) || !bytes.Equal(st.Data, []byte(name(i))) ||
				len(st.Notes) != 1 || string(st.Notes[0].Data) != name(i) {
				p.errorf("reply %d: %+v", i, r)
			}
		}
		if len(a.Do(nil)) != 0 {
			p.errorf("replies to no operation")
		}
	})},
	{"ManyWriters", each(func(p *probe, a, b register.Store) {
		const n = 40
		var want []string
		for i := range n {
			s := []register.Store{a, b}[i%2]
			p.put(s, "x", i, version(uint64(1+i*7%n), i), fmt.Sprint(i))
			p.note(s, "x", i, 1, "n")
			want = append(want, fmt.Sprintf("%d:1:n", i))
		}
		for _, s := range []register.Store{a, b} {
			if got := p.query(s, "x").Version.Seq; got != n {
				p.errorf("shows version %d, want %d", got, n)
			}
			p.notes(s, "x", want...)
		}
	})},
	{"WhoEntersChangesNothing", each(func(p *probe, a, b register.Store) {
		p.do(a, "x", 1, register.Enter{})
		p.wantShown(b, "x", machine.Version{}, "")
		p.notes(b, "x")
		p.put(b, "x", 2, version(4, 2), "four")
		p.do(a, "x", 1, register.Enter{})
		p.wantShown(a, "x", version(4, 2), "four")
		if names, err := a.Names(); err != nil || !slices.Equal(names, []string{"x"}) {
			p.errorf("names %q, %v", names, err)
		}
	})},
	{"WhoLeavesTakesNothingAlong", each(func(p *probe, a, b register.Store) {
		p.put(a, "x", 1, version(4, 1), "four")
		p.note(a, "x", 1, 1, "released")
		p.do(a, "x", 1, register.Leave{})
		p.put(a, "y", 2, version(9, 2), "nine")
		for _, s := range []register.Store{a, b} {
			p.wantShown(s, "x", version(4, 1), "four")
			p.notes(s, "x", "1:1:released")
		}
		p.put(b, "x", 3, version(5, 3), "five")
		p.wantShown(a, "x", version(5, 3), "five")
		if floor := p.query(b, "z").Floor; floor < 9 {
			p.errorf("floor %d, want 9 at least", floor)
		}
	})},
	{"ReopeningChangesNothing", func(p *probe) {
		var floors []uint64
		for round := range 4 {
			for i, s := range p.stores() {
				if round == 0 {
					p.put(s, "x", 1, version(3, 1), "three")
					p.put(s, "x", 2, version(2, 2), "two")
					p.note(s, "x", 2, 7, "seven")
					p.put(s, "y", 1, version(uint64(20+i), 1), "twenty")
					floors = append(floors, 0)
				}
				p.wantShown(s, "x", version(3, 1), "three")
				p.notes(s, "x", "2:7:seven")
				floor := p.query(s, "never written").Floor
				if floor < uint64(20+i) || floor < floors[i] {
					p.errorf("floor %d in round %d, %d before; want no less, and no less than the greatest version %d",
						floor, round, floors[i], 20+i)
				}
				floors[i] = floor
			}
			p.close()
		}
	}},
}
