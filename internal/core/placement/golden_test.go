package placement

import (
	"encoding/hex"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// These bytes are in logs and in messages of other versions.
func TestBytesOfCodecs(t *testing.T) {
	c, err := New([]machine.NodeID{1, 5, 1000}, 3, []Cell{{[]byte("a"), nil, 1}, {[]byte("k"), []byte("m"), 4}},
		[]Set{1, 1, 2, 7, 7, 7, 7, 0})
	if err != nil {
		t.Fatal(err)
	}
	counts := Counts{
		Buckets: 8, Origins: []machine.NodeID{1, 1000},
		Reads:  []bucketCount{{0, 3}, {2, 300}, {7, 1}},
		Writes: [][]bucketCount{{{1, 1}}, nil},
		Spans:  []spanCount{{[]byte("a"), nil, Load{5, []uint64{1, 200}}}, {[]byte("k"), []byte("m"), Load{0, []uint64{0, 1}}}},
		Pairs:  []PairCount{{[]byte("a"), []byte("b"), []uint64{1, 2}}},
	}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a configuration": {c.Encode(), "01030104e307030201610001016b016d04040201010204070100"},
		"counts":          {counts.Encode(), "01040201e70703000301ac02040101010100020161000501c801016b016d00000101016101620102"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}
