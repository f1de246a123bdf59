package wal_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// TestCrash appends, syncs, releases, crashes and opens at random. All that was
// synced, or that Open has found, must come back, in order, and nothing that was not
// appended.
func TestCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := waltest.NewDisk()
		fs := disk.FS()
		opts := Options{FS: fs, SegmentBytes: int64(rapid.SampledFrom([]int{2048, 8192, 65536}).Draw(t, "segment"))}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		l, err := Create("/d", nil, opts)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int // of all records that may be in the log; seq is index+1
		synced, first := 0, 1
		crash := func(failAfter int) {
			if failAfter >= 0 { // die in the middle of an append or sync
				fs.Fault = func(op, path string) error {
					if failAfter--; failAfter < 0 {
						return errors.New("dead")
					}
					return nil
				}
				n := r.IntN(3000)
				l.Append(Record{Kind: 7, Payload: payload(uint64(len(sizes)+1), n)})
				sizes = append(sizes, n)
				l.Sync()
			}
			l.Close()
			if r.IntN(3) == 0 {
				disk.Exit()
			} else {
				disk.Crash(r)
			}
			fs = disk.FS()
			opts.FS = fs
			var got []Record
			l, got, err = tryOpen("/d", opts)
			if err != nil {
				t.Fatalf("open after crash: %v", err)
			}
			if len(got) > 0 && int(got[0].Seq) > first || len(got) == 0 && synced >= first {
				t.Fatalf("records from %d on are gone", first)
			}
			for i, rec := range got {
				if want := int(l.FirstSeq()) + i; int(rec.Seq) != want || want > len(sizes) ||
					!bytes.Equal(rec.Payload, payload(rec.Seq, sizes[want-1])) {
					t.Fatalf("record %d is not what was appended", rec.Seq)
				}
			}
			last := l.LastSeq()
			l.Close()
			if l, err = OpenEnds("/d", opts, func(Record) error { return nil }); err != nil || l.LastSeq() != last {
				t.Fatalf("open the ends after crash: %v", err)
			}
			all := l.Reader(l.FirstSeq())
			for _, want := range got {
				if rec, err := all.Next(); err != nil || rec.Seq != want.Seq || !bytes.Equal(rec.Payload, want.Payload) {
					t.Fatalf("record %d is read as %d, %v", want.Seq, rec.Seq, err)
				}
			}
			if int(l.LastSeq()) < synced {
				t.Fatalf("log ends at %d, %d was synced", l.LastSeq(), synced)
			}
			sizes, synced = sizes[:l.LastSeq()], int(l.LastSeq())
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1, 2:
				for range rapid.IntRange(1, 6).Draw(t, "records") {
					n := rapid.IntRange(0, 3000).Draw(t, "bytes")
					if _, err := l.Append(Record{Kind: 7, Payload: payload(uint64(len(sizes)+1), n)}); err != nil {
						t.Fatal(err)
					}
					sizes = append(sizes, n)
				}
			case 3, 4:
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = len(sizes)
			case 5: // hand over to the kernel without a sync
				if err := l.Flush(); err != nil {
					t.Fatal(err)
				}
			case 6:
				crash(rapid.IntRange(-1, 8).Draw(t, "fail after"))
			case 7:
				if synced > 0 {
					first = max(first, rapid.IntRange(1, synced).Draw(t, "release"))
					if err := l.ReleaseTo(uint64(first)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		crash(-1)
		l.Close()
	})
}

// A process may die when a file has its name, and before that is durable. The records that
// the next one finds are durable.
func TestNamesThatAProcessLeaves(t *testing.T) {
	for seed := range uint64(20) {
		namesThatAProcessLeaves(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func namesThatAProcessLeaves(t *testing.T, r *rand.Rand) {
	t.Helper()
	disk := waltest.NewDisk()
	dies := func(fs *waltest.FS) {
		fs.Fault = func(op, path string) error {
			if op == "syncdir" {
				disk.Kill()
			}
			return nil
		}
	}
	fs := disk.FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 1500)
	dies(fs)
	if err := l.Snapshots().Save(SnapshotInfo{Index: 7}, func(io.Writer) error { return nil }); err == nil {
		t.Fatal("a snapshot whose name is not durable was saved")
	}
	disk.Exit()
	fs = disk.FS()
	l, _ = open(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	dies(fs)
	l.Append(Record{Payload: payload(2, 1500)}) // needs a new segment
	if err := l.Sync(); err == nil {
		t.Fatal("a record in a segment whose name is not durable was synced")
	}
	disk.Exit()
	l, _ = open(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 10)
	last := l.LastSeq()
	disk.Crash(r)
	l, got := open(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	if uint64(len(got)) != last {
		t.Errorf("%d records are there, want %d", len(got), last)
	}
	if list, err := l.Snapshots().List(); err != nil || len(list) != 1 {
		t.Errorf("the snapshots are %v, %v; want one", list, err)
	}
}
