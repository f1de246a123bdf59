package wal

import "testing"

// BenchmarkAppend is the log's own work for a record, without the disk.
func BenchmarkAppend(b *testing.B) {
	c, payload := newCodec(1), make([]byte, 256)
	var buf []byte
	b.SetBytes(256)
	b.ReportAllocs()
	for b.Loop() {
		buf = c.append(buf[:0], 9, 8, 1, payload)
	}
}
