package wal

import (
	"bytes"
	"strings"
	"testing"
)

// TestJudgeAtTheEdges has a record at, over and up to the edge of a sector and of the file. A record
// that was written as a whole and has changed is damage, and one of which a sector is missing was torn.
func TestJudgeAtTheEdges(t *testing.T) {
	c := newCodec(7)
	for end := sectorBytes - 64; end <= sectorBytes+8; end += recordAlign {
		for _, n := range []int{0, 1, 100, 2*sectorBytes - end - recordHeaderBytes - 1, 2*sectorBytes - end - recordHeaderBytes, 1000} {
			if n < 0 {
				continue
			}
			size := recordBytes(n)
			for _, behind := range []int{0, 8, 2 * sectorBytes} {
				before := bytes.Repeat([]byte{recordEnd}, end)
				whole := append(c.append(before, 5, 4, 1, make([]byte, n)), make([]byte, behind)...)
				for _, at := range []int{0, 4, 8, 16, 20, 21, recordHeaderBytes, size - 1} {
					seg := bytes.Clone(whole)
					seg[end+at] ^= 2
					if c.judge(seg, end, 5) == "" {
						t.Fatalf("a record of %d bytes at %d, %d bytes before the end of the file, changed in byte %d: taken for torn", size, end, behind, at)
					}
				}
				for from := end; from < end+size; from = from/sectorBytes*sectorBytes + sectorBytes {
					seg := bytes.Clone(whole)
					clear(seg[from:min(from/sectorBytes*sectorBytes+sectorBytes, end+size)])
					if damage := c.judge(seg, end, 5); damage != "" {
						t.Fatalf("a record of %d bytes at %d, %d bytes before the end of the file, its sector at %d lost: %s", size, end, behind, from, damage)
					}
				}
				for cut := end; cut < end+size; cut += recordAlign {
					if damage := c.judge(whole[:cut], end, 5); damage != "" {
						t.Fatalf("a record of %d bytes at %d, of a file that did not grow beyond %d: %s", size, end, cut, damage)
					}
				}
			}
		}
	}
}

// A record that was never written is judged by what is behind it, to the last byte of the file.
func TestJudgeByTheLastRecord(t *testing.T) {
	c := newCodec(7)
	const end = 64
	for _, tt := range []struct {
		name         string
		seq, durable uint64
		damage       string
	}{
		{"was durable before the last record was written", 6, 5, "record 5 is damaged: it was durable before record 6 was written at offset 1024"},
		{"was not", 6, 4, ""},
		{"cannot be so far behind the last record", 64, 63, ""},
		{"is behind the last record, which is an old one", 4, 3, ""},
	} {
		seg := c.append(make([]byte, 2*sectorBytes), tt.seq, tt.durable, 1, nil)
		if damage := c.judge(seg, end, 5); damage != tt.damage {
			t.Errorf("record 5 %s: %q, want %q", tt.name, damage, tt.damage)
		}
	}
}

// The header of another record is damage, whatever is missing behind it.
func TestJudgeTheHeaderOfAnother(t *testing.T) {
	c := newCodec(7)
	const end = 64
	for _, seq := range []uint64{4, 6} {
		seg := c.append(make([]byte, end), seq, 3, 1, make([]byte, 3*sectorBytes))
		clear(seg[sectorBytes : 2*sectorBytes])
		if damage := c.judge(seg, end, 5); !strings.Contains(damage, "is not that of a record") {
			t.Errorf("record %d in the place of record 5, a sector of it lost: %q, want damage", seq, damage)
		}
	}
}
