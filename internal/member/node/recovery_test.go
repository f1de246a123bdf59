package node

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
)

// Impossible records in a log stop the start. A member that went on would have forgotten
// acknowledgments or votes.
func TestRecordsThatCannotBe(t *testing.T) {
	entries := func(indexes ...uint64) (p []byte) {
		for _, i := range indexes {
			b, err := proto.Marshal(&raftpb.Entry{Index: proto.Uint64(i), Term: proto.Uint64(1)})
			if err != nil {
				t.Fatal(err)
			}
			p = append(binary.AppendUvarint(p, uint64(len(b))), b...)
		}
		return p
	}
	two := []*raftpb.Entry{{Index: proto.Uint64(4), Term: proto.Uint64(1)}, {Index: proto.Uint64(5), Term: proto.Uint64(1)}}
	if got, err := appendEntries(nil, two); err != nil || !bytes.Equal(got, entries(4, 5)) {
		t.Errorf("entries are written as %x, %v, want %x", got, err, entries(4, 5))
	}
	for _, tt := range []struct {
		name string
		r    wal.Record
		says string // "": it is taken
	}{
		{"the next entries", wal.Record{Kind: recordEntries, Payload: entries(4, 5)}, ""},
		{"entries anew", wal.Record{Kind: recordEntries, Payload: entries(3)}, ""},
		{"entries with a gap", wal.Record{Kind: recordEntries, Payload: entries(5)}, "some are missing"},
		{"a gap among entries", wal.Record{Kind: recordEntries, Payload: entries(4, 6)}, "some are missing"},
		{"entries that are cut off", wal.Record{Kind: recordEntries, Payload: entries(4)[:3]}, "bad length"},
		{"entries without a length", wal.Record{Kind: recordEntries, Payload: []byte{0x80}}, "bad length"},
		{"an entry that is none", wal.Record{Kind: recordEntries, Payload: []byte{1, 0xff}}, "proto"},
		{"a hard state that is none", wal.Record{Kind: recordHardState, Payload: []byte{0xff}}, "proto"},
		{"a snapshot that is none", wal.Record{Kind: recordSnapshot, Payload: []byte{0xff}}, "proto"},
		{"a release without a number", wal.Record{Kind: recordReleased, Payload: []byte{0x80}}, "is not a number"},
		{"a kind of a later version", wal.Record{Kind: 200}, "a newer version wrote it"},
	} {
		var s storage
		var l replica.Log
		if err := s.replay(&l, wal.Record{Seq: 1, Kind: recordEntries, Payload: entries(1, 2, 3)}); err != nil {
			t.Fatal(err)
		}
		tt.r.Seq = 2
		err := s.replay(&l, tt.r)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want it refused with %q", tt.name, err, tt.says)
		}
	}
}
