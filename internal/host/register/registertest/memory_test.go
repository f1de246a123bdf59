package registertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// memories is a set of n stores in memory, each seen through wrap.
func memories(n int, term time.Duration, wrap func(register.Store) register.Store) Fixture {
	var ms []*register.Memory
	for i := range n {
		ms = append(ms, register.NewMemory(register.Header{
			Set: machine.ID{7}, Of: n, Index: i, Term: term, Delay: 10 * time.Millisecond, Drift: 1000,
		}))
	}
	return Fixture{
		Open: func() (stores []register.Store, err error) {
			for _, m := range slices.Backward(ms) {
				stores = append(stores, wrap(m.Open()))
			}
			return stores, nil
		},
		Backup: func(i int) func() { return ms[i].Backup() },
	}
}

func TestMemory(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			Run(t, func(*testing.T) Fixture {
				return memories(n, 10*time.Second, func(s register.Store) register.Store { return s })
			})
		})
	}
}

// broken is a store that does something wrong.
type broken struct {
	register.Store
	do func(s register.Store, ops []register.Op) []register.Reply
}

func (b broken) Do(ops []register.Op) []register.Reply { return b.do(b.Store, ops) }

// answering changes the answers of a store.
func answering(change func(*quorumregister.State)) func(register.Store, []register.Op) []register.Reply {
	return func(s register.Store, ops []register.Op) []register.Reply {
		replies := s.Do(ops)
		for i, r := range replies {
			if st, ok := r.Value.(quorumregister.State); ok {
				change(&st)
				replies[i].Value = st
			}
		}
		return replies
	}
}

// asking changes the requests to a store.
func asking(change func(*register.Op)) func(register.Store, []register.Op) []register.Reply {
	return func(s register.Store, ops []register.Op) []register.Reply {
		ops = slices.Clone(ops)
		for i := range ops {
			change(&ops[i])
		}
		return s.Do(ops)
	}
}

// TestTheSuiteHasTeeth has stores break each rule and wants a check to notice.
func TestTheSuiteHasTeeth(t *testing.T) {
	var last uint64
	var puts atomic.Int64
	for _, c := range []struct {
		name, want string
		do         func(register.Store, []register.Op) []register.Reply
	}{
		{"the last put wins", "TheGreaterVersionWins", asking(func(op *register.Op) {
			if put, ok := op.Op.(quorumregister.Put); ok {
				last++
				put.Version.Seq += last << 32
				op.Op = put
			}
		})},
		{"ties are not broken", "TheGreaterVersionWins", asking(func(op *register.Op) {
			if put, ok := op.Op.(quorumregister.Put); ok {
				put.Version.Writer = machine.ID{1}
				op.Op = put
			}
		})},
		{"only the writer's own version is taken", "WhatAnotherWroteIsWrittenBack", asking(func(op *register.Op) {
			if put, ok := op.Op.(quorumregister.Put); ok && put.Version.Writer != op.Writer {
				op.Op = register.Leave{}
			}
		})},
		{"the last note wins", "OneNoteAWriter", asking(func(op *register.Op) {
			if note, ok := op.Op.(quorumregister.PutNote); ok {
				last++
				note.Seq += last << 32
				op.Op = note
			}
		})},
		{"all notes are one writer's", "ManyWriters", asking(func(op *register.Op) {
			if note, ok := op.Op.(quorumregister.PutNote); ok {
				note.Writer = machine.ID{}
				op.Op = note
			}
		})},
		{"names are cut", "NamesAreApart", asking(func(op *register.Op) { op.Name = op.Name[:min(255, len(op.Name))] })},
		{"names have no case", "NamesAreApart", asking(func(op *register.Op) { op.Name = strings.ToLower(op.Name) })},
		{"data is cut", "AllSizes", answering(func(s *quorumregister.State) { s.Data = s.Data[:min(512, len(s.Data))] })},
		{"trailing zeros are lost", "AllSizes", answering(func(s *quorumregister.State) {
			s.Data = []byte(strings.TrimRight(string(s.Data), "\x00"))
		})},
		{"the floor is the register's own", "ReopeningChangesNothing", answering(func(s *quorumregister.State) { s.Floor = s.Version.Seq })},
		{"notes are forgotten", "ReopeningChangesNothing", answering(func(s *quorumregister.State) { s.Notes = nil })},
		{"replies are mixed up", "ManyAtOnce", func(s register.Store, ops []register.Op) []register.Reply {
			replies := s.Do(ops)
			slices.Reverse(replies)
			return replies
		}},
		{"a writer that leaves takes all along", "WhoLeavesTakesNothingAlong", asking(func(op *register.Op) {
			if _, ok := op.Op.(register.Leave); ok {
				op.Op = quorumregister.Put{Version: machine.Version{Seq: 1 << 40}}
			}
		})},
		// Twenty in a row: a single one is put again by its writer's next read, and seldom missed.
		{"what was acknowledged is dropped for a while", "AtomicWhenShared", asking(func(op *register.Op) {
			if _, ok := op.Op.(quorumregister.Put); ok && puts.Add(1)%40 < 20 {
				op.Op = register.Leave{}
			}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var failed []string
			for _, check := range slices.Concat(storeChecks, sharingChecks) {
				f := memories(1, time.Millisecond, func(s register.Store) register.Store { return broken{s, c.do} })
				for range 5 { // a history may be such that it does not show
					if check.name == c.want && len(check.judge(t.Context(), f)) > 0 {
						failed = append(failed, check.name)
						break
					}
				}
			}
			if len(failed) != 1 {
				t.Errorf("%s did not notice", c.want)
			}
		})
	}
}

// A write that fails is a failure of the store, and ends the check: the steps after it would judge
// something else.
func TestAWriteThatFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	went := false
	errs := check{"Write", func(p *probe) {
		set, _ := p.set()
		p.write(set.register("x"), "v")
		went = true
	}}.judge(ctx, memories(1, time.Millisecond, func(s register.Store) register.Store { return s }))
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) || went {
		t.Errorf("a write fails: the check says %v, and goes on: %v", errs, went)
	}
}
