package abcast

import (
	"encoding/hex"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// These bytes are on disks and in messages of other versions.
func TestBytesOfCodecs(t *testing.T) {
	var batch []byte
	batch = appendMessage(batch, Message{Client: NewClient(5, 1<<63), Seq: 300, Payload: []byte("payload")})
	batch = appendMessage(batch, Message{Client: machine.ID{15: 9}, Seq: 1, Change: true, Payload: make([]byte, 100)})
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a batch":             {batch, "00000000000000058000000000000000ac020e7061796c6f61640000000000000000000000000000000901c90100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"},
		"a change":            {Change{Add: []Member{{7, "host:1"}, {1 << 40, ""}}, Remove: []machine.NodeID{3, 200}}.Payload(), "020706686f73743a318080808080200003c801"},
		"a change of nothing": {Change{}.Payload(), "00"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}
