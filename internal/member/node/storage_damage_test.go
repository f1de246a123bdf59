package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
)

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
