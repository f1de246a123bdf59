package broadcast

import (
	"encoding/hex"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestBytesStay: logs and members of earlier versions are read, so each message and record keeps its
// bytes. The list is in the order of bodies.
func TestBytesStay(t *testing.T) {
	want := []string{
		"010302808080808020078080808080808080800104", // asynclease.Lease
		"020302808080808020",                         // asynclease.Ack
		"03030280808080802003",                       // asynclease.Nack
		"04030280808080802002",                       // asynclease.Give
		"05010401010176",                             // fastct.Estimate
		"060104010176",                               // fastct.NewEstimate
		"07010401",                                   // fastct.Ack
		"080104",                                     // fastct.Nack
		"090104",                                     // fastct.Abort
		"0a0104",                                     // fastct.Call
		"0b0104010176",                               // fastct.Decide
		"0c03010003",                                 // fastct.Counts
		"0d04",                                       // fastct.Trimmed
		"0e0201000000000000000000000000000000020001700200000000000000000000000000000001010171", // abcast.Submit
		"2405020304", // abcast.Status
		"1006",       // abcast.Fetch
		"2505010303633a31010103613a31020103090807030c010500000000000000000000000000000006070b", // abcast.Transfer
		"2603090208020904",                         // broadcast.life
		"15010301028080808080808002",               // asynclease.Identity
		"1603028080808080200780808080808080808001", // asynclease.Permitted
		"17030280808080802002",                     // asynclease.Cut
		"1802",                                     // asynclease.Floor
		"190103010280808080808080020001",           // fastct.Identity
		"1a010a",                                   // fastct.Entered
		"1b01000176",                               // fastct.Adopted
		"1c010100",                                 // fastct.Settled
		"1d02",                                     // fastct.Gone
		"2705010303633a31010103613a31020103090807030c010500000000000000000000000000000006070b", // abcast.Base
		"1f0707010400",                 // abcast.In
		"20030201760177",               // abcast.Decisions
		"21040176",                     // abcast.Learned
		"2207",                         // abcast.Started
		"2306",                         // broadcast.want
		"2801020304010506010102030405", // broadcast.introduction
		"290102",                       // broadcast.met
		"2a01020304",                   // broadcast.forgot
		"2b0102030405",                 // broadcast.note
		"2c",                           // broadcast.counted
	}
	if len(want) != len(bodies) {
		t.Fatalf("%d messages and records have their bytes here, and there are %d", len(want), len(bodies))
	}
	for i, body := range bodies {
		if got := hex.EncodeToString(encode(body)); got != want[i] {
			t.Errorf("%T: the bytes are %s, want %s", body, got, want[i])
		}
	}
	for _, tt := range []struct {
		what, want string
		bytes      []byte
	}{
		{"a message of the history", "ac0201020000000000000000000000000000050070",
			encodeHistory(Message{Position: 300, Client: machine.ID{1, 2}, Seq: 5, Payload: []byte("p")})},
		{"a change in the history", "0703000000000000000000000000000000808080802001020103613a310303633a31",
			encodeHistory(Message{Position: 7, Client: machine.ID{3}, Seq: 1 << 33, Members: map[machine.NodeID]string{3: "c:1", 1: "a:1"}})},
		{"the owner of a directory", "808080808020ac02", Config{ID: 300, Group: 1 << 40}.owner()},
		{"a message in its life", "0807060504030201290102", (&Node{self: 0x0102030405060708}).seal(met{1, 2})},
	} {
		if got := hex.EncodeToString(tt.bytes); got != tt.want {
			t.Errorf("%s: the bytes are %s, want %s", tt.what, got, tt.want)
		}
	}
}
