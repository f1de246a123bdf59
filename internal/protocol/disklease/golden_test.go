package disklease

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// These bytes are in registers of other versions.
func TestBytesOfCodecs(t *testing.T) {
	e := entry{id: machine.ID{1, 15: 2}, stamp: 3, slots: 1, token: 300, lockDelay: time.Second, holder: "me"}
	w := witness{
		entries: map[stamp]evidence{e.key(): {value: 500, since: -7, live: true}},
		wishes:  map[machine.ID]evidence{{9}: {value: 1, since: 1 << 40, live: true}},
		waiting: []machine.ID{{9}},
	}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a record":         {record{delay: 3 * time.Millisecond, entries: []entry{e, {}}}.encode(time.Millisecond), "0180897a02010000000000000000000000000000020301ac028094ebdc03026d65000000000000000000000000000000000000000000"},
		"an empty record":  {record{delay: time.Millisecond}.encode(time.Millisecond), "010000"},
		"a note":           {note{1, 2, 300, 4, 1<<64 - 1, 6}.encode(), "010102ac0204ffffffffffffffffff0106"},
		"a witness":        {w.encode([]entry{e}), "01010100000000000000000000000000000203f4030d010900000000000000000000000000000001808080808040"},
		"a block":          {block{Rank{7, machine.ID{1}}, Rank{6, machine.ID{15: 2}}, []byte("value")}.encode(), "b100000000000000070100000000000000000000000000000000000000000000060000000000000000000000000000000276616c7565"},
		"a decision":       {encodeDecision([]byte("value")), "b176616c7565"},
		"unreadable bytes": {Unreadable([]byte("damaged"), time.Minute), "01000141f0c27c00e8018f7715b5f50f67b5b501010080b09dc2df0100"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}
