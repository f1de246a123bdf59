package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// TestStorageForgetsNothing does what raft may do to a storage, in any order,
// and crashes in between.
func TestStorageForgetsNothing(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { stormStorage(t, rand.New(rand.NewPCG(uint64(seed), 1)), 120) })
	}
}

func stormStorage(t *testing.T, r *rand.Rand, steps int) {
	b := newBench(t)
	for range steps {
		st := &b.now
		force := r.IntN(3) > 0
		switch r.IntN(15) {
		case 0, 1, 2, 3:
			b.append(st.last+1, 1+r.IntN(6), force)
		case 4: // another leader replaces what was not committed
			if fixed := max(st.commit, b.told); st.last > fixed {
				st.term, st.vote = st.term+1, uint64(r.IntN(4))
				b.append(fixed+1+r.Uint64N(st.last-fixed), 1+r.IntN(3), force)
			}
		case 5:
			st.term, st.vote = st.term+1, uint64(r.IntN(4))
			b.write(replica.Record{HardState: b.hard()}, force)
		case 6, 7, 8:
			if st.last > st.commit {
				st.commit += 1 + r.Uint64N(st.last-st.commit)
				b.write(replica.Record{HardState: b.hard()}, force)
			}
		case 9, 10: // only what is durable is applied, and what is applied is in a snapshot
			if st.commit > st.snap {
				b.write(replica.Record{HardState: b.hard()}, true)
				b.save(st.snap + 1 + r.Uint64N(st.commit-st.snap))
			}
		case 11: // a snapshot of the leader's, ahead of what we know to be committed
			fixed := max(st.commit, b.told)
			at := fixed + 1 + r.Uint64N(8)
			b.told = at
			if old, held := st.entries[at]; held && (old == st.term || r.IntN(2) == 0) {
				b.file(at, old) // ours, after all: raft only learns that it is committed
				b.mayDie(r)
				b.now.commit = max(at, b.now.commit)
				b.write(replica.Record{HardState: b.hard()}, force)
				continue
			}
			b.file(at, st.term)
			if b.mayDie(r) {
				continue
			}
			if r.IntN(4) == 0 { // too late: its entries were faster
				b.append(fixed+1, int(at-fixed)+r.IntN(3), force)
				continue
			}
			if r.IntN(2) == 0 {
				b.advance(at)
				b.restore(at, st.term, force)
			} else {
				b.restore(at, st.term, force)
				b.advance(at)
			}
		case 12, 13:
			b.mayDie(r)
		case 14:
			if st.last > st.released {
				b.release(st.released+1+r.Uint64N(st.last-st.released), force)
			}
		}
	}
	b.disk.Crash(r)
	b.start()
}

func TestStorageRecovers(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *bench)
	}{
		{"nothing but a hard state", func(b *bench) {
			b.now.term, b.now.vote = 5, 3
			b.write(replica.Record{HardState: b.hard()}, true)
		}},
		{"a vote that was not synced may be forgotten", func(b *bench) {
			b.now.term, b.now.vote = 5, 3
			b.write(replica.Record{HardState: b.hard()}, false)
		}},
		{"more is released than the log says to be committed", func(b *bench) {
			b.append(2, 10, true)
			b.now.commit = 4
			b.write(replica.Record{HardState: b.hard()}, true)
			b.release(8, true)
			b.kill()
			b.start()
			b.now.commit = 6
			b.write(replica.Record{HardState: b.hard()}, true)
		}},
		{"entries of a later term in place of earlier ones", func(b *bench) {
			b.append(2, 10, true)
			b.now.term = 2
			b.append(5, 2, true)
		}},
		{"a snapshot that came without a record of it, and what was appended since", func(b *bench) {
			b.append(2, 4, true)
			b.file(20, 1)
			b.kill()
			b.start()
			b.append(21, 3, true)
		}},
		{"the same over entries that the leader does not have", func(b *bench) {
			b.append(2, 30, true)
			b.now.term = 2
			b.write(replica.Record{HardState: b.hard()}, true)
			b.file(20, 2)
			b.kill()
			b.start()
			b.append(21, 3, true)
		}},
		{"the same twice", func(b *bench) {
			b.file(20, 1)
			b.kill()
			b.start()
			b.file(40, 1)
			b.kill()
			b.start()
			b.append(41, 3, true)
		}},
		{"a snapshot of a later term than any that was heard of", func(b *bench) {
			b.append(2, 4, true)
			b.file(20, 9)
			b.kill()
			b.start()
			b.append(21, 1, true)
		}},
		{"segments released, and with them the hard state and what is released to readers", func(b *bench) {
			b.now.vote = 3
			b.append(2, 10, true)
			b.release(5, true)
			for range 20 {
				b.now.commit = b.now.last
				b.append(b.now.last+1, 10, true)
				b.save(b.now.commit)
			}
			for range 30 {
				b.append(b.now.last+1, 10, true)
			}
			if first := b.s.log.FirstSeq(); first < 10 {
				b.t.Errorf("the log starts with record %d: nothing was released", first)
			}
		}},
		{"own snapshot overtaken by the leader's", func(b *bench) {
			b.append(2, 20, true)
			b.now.commit = 15
			b.write(replica.Record{HardState: b.hard()}, true)
			b.file(30, 1)
			b.advance(30)
			b.restore(30, 1, true)
			b.file(12, 1) // began before, ends now
			b.advance(12)
			if b.s.newest != 30 {
				b.t.Errorf("the newest snapshot is %d, want 30", b.s.newest)
			}
			b.append(31, 10, true)
			b.now.commit = 40
			b.append(41, 1, true)
			b.save(40)
			b.append(42, 1, true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				r := rand.New(rand.NewPCG(seed, 2))
				b := newBench(t)
				tt.do(b)
				for range 3 { // and several restarts in a row
					b.disk.Crash(r)
					b.start()
				}
				b.append(b.now.last+1, 1, true)
				b.kill()
				b.start()
			}
		})
	}
}

// TestSnapshotsThatWaitAreKept: the leader's may arrive faster than the applier
// takes them, while snapshots of our own end.
func TestSnapshotsThatWaitAreKept(t *testing.T) {
	b := newBench(t)
	b.append(2, 20, true)
	b.now.commit = 20
	b.write(replica.Record{HardState: b.hard()}, true)
	b.save(5)
	for _, at := range []uint64{21, 40, 50} {
		b.file(at, 1)
	}
	b.save(10)
	b.save(20)
	got, err := b.s.log.Snapshots().List()
	if want := []uint64{10, 20, 21, 40, 50}; err != nil || !slices.Equal(got, want) {
		t.Errorf("snapshots %v, %v; want %v", got, err, want)
	}
}
