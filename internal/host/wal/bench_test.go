package wal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
)

// BenchmarkAppendSync compares a batch of records with a bare write and fdatasync
// of as many bytes into a preallocated file of the same file system.
func BenchmarkAppendSync(b *testing.B) {
	const recordSize = 256
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("log/%d", n), func(b *testing.B) {
			l := create(b, b.TempDir(), Options{})
			records := make([]Record, n)
			for i := range records {
				records[i].Payload = payload(1, recordSize)
			}
			b.SetBytes(int64(n * recordSize))
			b.ReportAllocs()
			for b.Loop() {
				l.Append(records...)
				if err := l.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("bare/%d", n), func(b *testing.B) {
			f, err := OS{}.OpenFile(filepath.Join(b.TempDir(), "bare"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			const size = 64 << 20
			if err := f.Preallocate(size); err != nil {
				b.Fatal(err)
			}
			batch := make([]byte, n*recordSize)
			b.SetBytes(int64(len(batch)))
			off := int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(batch, off); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
				if off += int64(len(batch)); off+int64(len(batch)) > size {
					off = 0
				}
			}
		})
	}
}

// BenchmarkOpen replays a full segment.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := create(b, dir, Options{})
	for range 60_000 {
		l.Append(Record{Payload: payload(1, 1000)})
	}
	if err := l.Sync(); err != nil {
		b.Fatal(err)
	}
	l.Close()
	b.SetBytes(60_000 * 1000)
	for b.Loop() {
		l, err := Open(dir, Options{}, func(Record) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}
