package memberworld

import (
	"strings"
	"testing"
	"time"
)

func TestLedgers(t *testing.T) {
	const s = time.Second
	log := []event{
		{rev: 2, key: "a/0", value: "90"}, {rev: 2, key: "a/1", value: "110"}, {rev: 3, key: "k/0", value: "x"},
		{rev: 4, key: "a/1", value: "105"}, {rev: 4, key: "a/2", value: "105"},
	}
	asked := func(from, to time.Duration, of ...balance) statement {
		st := statement{began: from * s, ended: to * s}
		copy(st.of[:], of)
		return st
	}
	none := balance{0, "100"}
	first := []balance{{2, "90"}, {2, "110"}, none}
	second := []balance{{2, "90"}, {4, "105"}, {4, "105"}}
	for _, tt := range []struct {
		name       string
		transfers  []transfer
		statements []statement
		want       string
	}{
		{"nothing was asked", nil, nil, ""},
		{"before, between and behind", []transfer{{2 * s, 2, 0, 1}, {6 * s, 4, 1, 2}},
			[]statement{asked(0, 1, none, none, none), asked(3, 4, first...), asked(7, 8, second...)}, ""},
		{"asked at the moment of an answer", []transfer{{2 * s, 2, 0, 1}}, []statement{asked(2, 3, none, none, none)}, ""},
		{"a transfer that was over is not shown", []transfer{{2 * s, 2, 0, 1}}, []statement{asked(3, 4, none, none, none)}, "before this, which was over: from account 0 to 1 at revision 2"},
		{"the second of two that were over", []transfer{{2 * s, 2, 0, 1}, {3 * s, 4, 1, 2}}, []statement{asked(4, 5, first...)}, "before this, which was over: from account 1 to 2 at revision 4"},
		{"an older statement", nil, []statement{asked(0, 1, second...), asked(2, 3, first...)}, "as it was before this, which was over: from 0s to 1s"},
		{"two statements at once", nil, []statement{asked(0, 2, second...), asked(1, 3, first...)}, ""},
		{"one side", nil, []statement{asked(0, 1, balance{2, "90"}, none, balance{0, "110"})}, "shows one side of the transfer at revision 2, and not that of account 1"},
		{"the other side is older", nil, []statement{asked(0, 1, balance{2, "90"}, balance{2, "110"}, balance{4, "105"})}, "shows one side of the transfer at revision 4, and not that of account 1"},
		{"a value that is nowhere", nil, []statement{asked(0, 1, balance{2, "91"}, balance{2, "110"}, none)}, "for account 0, and the log has"},
		{"a revision that is nowhere", nil, []statement{asked(0, 1, balance{9, "90"}, balance{2, "110"}, none)}, "{rev:9 value:90} for account 0"},
		{"another account's", nil, []statement{asked(0, 1, none, balance{2, "90"}, none)}, "for account 1, and the log has"},
		{"money from nowhere", nil, []statement{asked(0, 1, balance{0, "101"}, none, none)}, "has 301 in all, want 300"},
		{"no number", nil, []statement{asked(0, 1, balance{0, "x"}, none, none)}, `account 0 has "x"`},
		{"a transfer that is lost", []transfer{{2 * s, 9, 0, 1}}, nil, "was acknowledged, and the log has [] there"},
		{"a transfer to another account", []transfer{{2 * s, 2, 0, 2}}, nil, "was acknowledged, and the log has [{rev:2 key:a/0"},
		{"a transfer that only half is there", []transfer{{2 * s, 3, 0, 1}}, nil, "was acknowledged, and the log has [] there"},
	} {
		got := ""
		if err := (&ledger{transfers: tt.transfers, statements: tt.statements}).audit(log); err != nil {
			got = err.Error()
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
