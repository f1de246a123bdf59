package wal

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzOpen opens arbitrary bytes as the only segment of a log: an error or a log
// that can be opened again with the same records, never a panic.
func FuzzOpen(f *testing.F) {
	for _, batches := range [][][]int{{}, {{0}}, {{10, 600}, {300}}} {
		_, ino, offsets := oneSegment(f, batches...)
		end := offsets[len(offsets)-1]
		f.Add(ino.data[:end])
		f.Add(ino.data[:end-3])
		torn := bytes.Clone(ino.data[:end+100])
		clear(torn[end/2:])
		torn[end+50] = 1
		f.Add(torn)
	}
	f.Fuzz(func(t *testing.T, seg []byte) {
		m, ino, _ := oneSegment(t, []int{0})
		got, note, err := reopen(m, ino, seg)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerVersion) {
				t.Fatalf("got %v, want ErrCorrupt or ErrNewerVersion", err)
			}
			return
		}
		again, secondNote, err := reopen(m, ino, bytes.Clone(ino.data))
		if err != nil || secondNote != nil || len(again) != len(got) {
			t.Fatalf("opened with %d records and %v; again: %d records, %v, %v", len(got), note, len(again), secondNote, err)
		}
	})
}

// FuzzSnapshot imports arbitrary bytes: ErrCorrupt, ErrNewerVersion, or a
// snapshot that is kept as it came.
func FuzzSnapshot(f *testing.F) {
	for _, content := range []string{"", "x", strings.Repeat("y", 1000)} {
		var b bytes.Buffer
		enc, _ := newSnapshotEncoder(&b, SnapshotInfo{Index: 5, Term: 2, Meta: []byte("conf")})
		enc.Write([]byte(content))
		enc.finish()
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()-1])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		s := &Snapshots{fs: newMemFS(), dir: "/s"}
		info, err := s.Import(bytes.NewReader(file))
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
