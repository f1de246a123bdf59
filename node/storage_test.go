package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/replica"
	"github.com/tenure-lease/tenure/wal"
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
		switch r.IntN(14) {
		case 0, 1, 2, 3:
			b.append(st.last+1, 1+r.IntN(6), force)
		case 4: // another leader replaces what was not committed
			if st.last > st.commit {
				st.term, st.vote = st.term+1, uint64(r.IntN(4))
				b.append(st.commit+1+r.Uint64N(st.last-st.commit), 1+r.IntN(3), force)
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
			at := st.commit + 1 + r.Uint64N(8)
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
				b.append(st.commit+1, int(at-st.commit)+r.IntN(3), force)
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
		}
	}
	b.disk.crash(r)
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
		{"segments released, and the hard state with them", func(b *bench) {
			b.now.vote = 3
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
					b.disk.crash(r)
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
	for _, at := range []uint64{30, 40, 50} {
		b.file(at, 1)
	}
	b.save(10)
	b.save(15)
	got, err := b.s.log.Snapshots().List()
	if want := []uint64{10, 15, 30, 40, 50}; err != nil || !slices.Equal(got, want) {
		t.Errorf("snapshots %v, %v; want %v", got, err, want)
	}
}

// TestStorageCrashesAtEveryPoint lets the machine die at each call of the file
// system in a life with everything in it, those of a start included.
func TestStorageCrashesAtEveryPoint(t *testing.T) {
	life := func(b *bench) {
		b.start()
		b.append(2, 8, true)
		b.now.term, b.now.vote, b.now.commit = 2, 3, 6
		b.append(8, 4, true) // over two that were not committed
		b.save(6)
		b.now.commit = 11
		b.append(12, 20, false)
		b.append(32, 20, true)
		b.save(11)
		b.append(52, 20, true)
		b.kill()
		b.start()
		b.now.commit = 71
		b.write(replica.Record{HardState: b.hard()}, true)
		b.save(60)
		b.now.term, b.now.vote = 3, 0
		b.file(90, 3)
		b.restore(90, 3, true)
		b.advance(90)
		b.append(91, 20, true)
		b.now.commit = 110
		b.append(111, 1, true)
		b.save(100)
		b.save(110)
		b.append(112, 20, true)
		b.file(150, 3)
		b.kill()
		b.start()
		b.append(151, 3, true)
		b.kill()
	}
	// dies tells whether f crashed.
	dies := func(f func()) (died bool) {
		defer func() {
			switch r := recover(); r {
			case nil:
			case errCrashed:
				died = true
			default:
				panic(r)
			}
		}()
		f()
		return false
	}
	points := 0
	for at, more := 1, true; more; at++ {
		more = false
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, uint64(at)))
			b := &bench{t: t, disk: newMemDisk(), crashAt: at}
			b.begin()
			if !dies(func() { life(b) }) {
				break
			}
			more = true
			b.disk.crash(r)
			b.ops, b.crashAt = 0, 1+r.IntN(40) // and once more, during the start
			if dies(b.start) {
				b.disk.crash(r)
				b.crashAt = 0
				b.start()
			}
			b.crashAt = 0
			b.append(b.now.last+1, 2, true)
			b.kill()
			b.start()
			if t.Failed() {
				t.Fatalf("crash at call %d, seed %d", at, seed)
			}
		}
		points = at
	}
	t.Logf("%d points", points)
}

func snapshotFile(index uint64) string { return fmt.Sprintf("/data/snap/%016x.snap", index) }

// history makes two snapshots, at 11 and 21, with the log from 12 on.
func (b *bench) history() {
	for range 2 {
		b.append(b.now.last+1, 10, true)
		b.now.commit = b.now.last
		b.write(replica.Record{HardState: b.hard()}, true)
		b.save(b.now.commit)
	}
	b.append(b.now.last+1, 2, true)
	b.now.snap, b.now.snapTerm = 1, 1
	b.kill()
}

func TestDamagedSnapshots(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(b *bench)
		want   uint64 // the snapshot gone on from; 0: it must not start
		is     error
		says   string
	}{
		{"none", func(*bench) {}, 21, nil, ""},
		{"the newest", func(b *bench) { b.damage(snapshotFile(21)) }, 11, nil, ""},
		{"the reserve", func(b *bench) { b.damage(snapshotFile(11)) }, 21, nil, ""},
		{"both, the log reaching back to the beginning", func(b *bench) {
			b.damage(snapshotFile(11))
			b.damage(snapshotFile(21))
		}, 1, nil, ""},
		{"deleted by hand, the log reaching back", func(b *bench) { b.remove(snapshotFile(21)) }, 11, nil, ""},
		{"both, the log released", func(b *bench) {
			b.start()
			for range 40 {
				b.now.commit = b.now.last
				b.append(b.now.last+1, 20, true)
				b.save(b.now.commit)
			}
			b.append(b.now.last+1, 1, true)
			names, err := b.s.log.Snapshots().List()
			if err != nil || len(names) != 2 {
				b.t.Fatalf("snapshots %v, %v; want 2", names, err)
			}
			b.kill()
			b.damage(snapshotFile(names[0]))
			b.damage(snapshotFile(names[1]))
		}, 0, wal.ErrCorrupt, ".snap"},
		{"all deleted by hand, the log released", func(b *bench) {
			b.start()
			for range 40 {
				b.now.commit = b.now.last
				b.append(b.now.last+1, 20, true)
				b.save(b.now.commit)
			}
			b.append(b.now.last+1, 1, true)
			names, _ := b.s.log.Snapshots().List()
			b.kill()
			for _, name := range names {
				b.remove(snapshotFile(name))
			}
		}, 0, nil, "deleted by hand"},
		{"the leader's, with nothing before it", func(b *bench) {
			b.start()
			b.file(50, 1)
			b.advance(50)
			b.restore(50, 1, true)
			b.append(51, 1, true)
			b.kill()
			b.damage(snapshotFile(50))
		}, 0, wal.ErrCorrupt, ".snap"},
		{"none, but the log lost its end", func(b *bench) {
			b.start()
			b.now.commit = 99
			b.write(replica.Record{HardState: b.hard()}, true)
			b.kill()
		}, 0, nil, "entries up to 99 were committed but the log ends at 23"},
		{"the leader's, deleted by hand", func(b *bench) {
			b.start()
			b.file(50, 1)
			b.advance(50)
			b.restore(50, 1, true)
			b.append(51, 1, true)
			b.kill()
			b.remove(snapshotFile(50))
		}, 0, nil, "deleted by hand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.history()
			tt.damage(b)
			err := b.open()
			if tt.want == 0 {
				if err == nil {
					t.Fatalf("it started, from snapshot %d", b.log.Snapshot.GetIndex())
				}
				if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want %v, saying %q", err, tt.is, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.log.Snapshot.GetIndex(); got != tt.want {
				t.Errorf("it goes on from snapshot %d, want %d", got, tt.want)
			}
			if got := tt.want + uint64(len(b.log.Entries)); got != b.now.last {
				t.Errorf("the log ends at %d, want %d", got, b.now.last)
			}
			b.kill()
		})
	}
}

func TestDirectoryOfAnotherMemberIsRefused(t *testing.T) {
	for _, tt := range []struct {
		id   identity
		want string
	}{
		{identity{Cluster: 7, Member: 3, Voters: testIdentity.Voters}, "belongs to member 2"},
		{identity{Cluster: 8, Member: 2, Voters: testIdentity.Voters}, "belongs to cluster 7"},
	} {
		b := newBench(t)
		b.append(2, 3, true)
		b.kill()
		_, _, err := openStorage("/data", tt.id, wal.Options{FS: b.disk.fs(), SegmentBytes: 8 << 10}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "/data") {
			t.Errorf("as member %d of cluster %d: %v, want that /data %s", tt.id.Member, tt.id.Cluster, err, tt.want)
		}
		b.start() // nothing of it is lost, and the lock is free
	}
}
