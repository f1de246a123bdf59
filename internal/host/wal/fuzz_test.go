package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// FuzzOpen opens arbitrary bytes as the only segment of a log: an error or a log
// that can be opened again with the same records, never a panic.
func FuzzOpen(f *testing.F) {
	for _, batches := range [][][]int{{}, {{0}}, {{10, 600}, {300}}} {
		disk, offsets := oneSegment(f, batches...)
		whole, end := disk.ReadFile(segmentName), offsets[len(offsets)-1]
		f.Add(whole[:end])
		f.Add(whole[:end-3])
		torn := bytes.Clone(whole[:end+100])
		clear(torn[end/2:])
		torn[end+50] = 1
		f.Add(torn)
	}
	f.Fuzz(func(t *testing.T, seg []byte) {
		disk, _ := oneSegment(t, []int{0})
		got, note, err := reopen(disk, seg)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerVersion) {
				t.Fatalf("got %v, want ErrCorrupt or ErrNewerVersion", err)
			}
			return
		}
		again, secondNote, err := reopen(disk, disk.ReadFile(segmentName))
		if err != nil || secondNote != nil || len(again) != len(got) {
			t.Fatalf("opened with %d records and %v; again: %d records, %v, %v", len(got), note, len(again), secondNote, err)
		}
	})
}

// FuzzSnapshot imports arbitrary bytes: ErrCorrupt, ErrNewerVersion, or a
// snapshot that is kept as it came.
func FuzzSnapshot(f *testing.F) {
	for _, content := range []string{"", "x", strings.Repeat("y", 1000)} {
		disk := waltest.NewDisk()
		s := testSnapshots(f, disk)
		save(f, s, 5, content)
		file := disk.ReadFile(s.Path(5))
		f.Add(file)
		f.Add(file[:len(file)-1])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		s := testSnapshots(t, waltest.NewDisk())
		index := uint64(0)
		if len(file) >= 24 {
			index = binary.LittleEndian.Uint64(file[16:])
		}
		info, err := s.Import(index, bytes.NewReader(file))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerVersion) {
				t.Fatalf("got %v, want ErrCorrupt or ErrNewerVersion", err)
			}
			return
		}
		raw, _, err := s.Export(info.Index)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := io.ReadAll(raw)
		if err != nil || !bytes.HasPrefix(file, kept) {
			t.Fatalf("kept %d bytes that did not come, %v", len(kept), err)
		}
	})
}
