package flease

import (
	"cmp"
	"reflect"
	"testing"
)

// A register grants a read whose rank is above all that it has read or written, and a write whose rank
// is not below that. A refused operation leaves it as it was.
func TestStepsOfARegister(t *testing.T) {
	low, mid, high := Rank{Time: 5, Proc: 1}, Rank{Time: 5, Proc: 2}, Rank{Time: 6, Proc: 1}
	old, lease := &Lambda{1, 90}, &Lambda{2, 100}
	for _, tt := range []struct {
		what        string
		read, write *Rank
		k           Rank
		reads       bool // a read with rank k is granted
		writes      bool // a write with rank k is granted
	}{
		{"that is new", nil, nil, low, true, true},
		{"that has read below", &low, nil, mid, true, true},
		{"that has read the same", &mid, nil, mid, false, true},
		{"that has read above", &high, nil, mid, false, false},
		{"that has written below", nil, &low, mid, true, true},
		{"that has written the same", nil, &mid, mid, false, true},
		{"that has written above", nil, &high, mid, false, false},
		{"that has read below and written above", &low, &high, mid, false, false},
		{"that has read above and written below", &high, &low, mid, false, false},
	} {
		value := old
		if tt.write == nil {
			value = nil
		}
		was := Register{read: tt.read, write: tt.write, value: value}
		r := was
		r.Order = Strict
		then := was
		var at *Rank
		var v *Lambda
		if tt.reads {
			then.read, at, v = &tt.k, tt.write, value
		}
		if ack, k, got := r.Read(tt.k); ack != tt.reads || k != at || got != v {
			t.Errorf("a register %s reads %v: %v with %v of %v, want %v with %v of %v", tt.what, tt.k, ack, got, k, tt.reads, v, at)
		}
		r.Order = nil
		if !reflect.DeepEqual(r, then) {
			t.Errorf("a register %s has read %v: then it is %+v, want %+v", tt.what, tt.k, r, then)
		}
		r, then = was, was
		r.Order = Strict
		if tt.writes {
			then.write, then.value = &tt.k, lease
		}
		if ack := r.Write(tt.k, lease); ack != tt.writes {
			t.Errorf("a register %s writes %v: %v, want %v", tt.what, tt.k, ack, tt.writes)
		}
		r.Order = nil
		if !reflect.DeepEqual(r, then) {
			t.Errorf("a register %s has written %v: then it is %+v, want %+v", tt.what, tt.k, r, then)
		}
	}
}

// The strict order looks at the time, then the process, then the luck. The fuzzy one takes times within ε
// for equal, and looks at the luck before the process.
func TestOrdersOfRanks(t *testing.T) {
	for _, tt := range []struct {
		a, b          Rank
		strict, fuzzy int
	}{
		{Rank{20, 1, 1}, Rank{20, 1, 1}, 0, 0},
		{Rank{20, 1, 1}, Rank{31, 2, 2}, -1, -1},
		{Rank{20, 1, 2}, Rank{30, 2, 1}, -1, 1},
		{Rank{20, 1, 1}, Rank{30, 1, 1}, -1, 0},
		{Rank{20, 2, 1}, Rank{30, 1, 1}, -1, 1},
		{Rank{20, 1, 1}, Rank{20, 2, 1}, -1, -1},
		{Rank{20, 1, 2}, Rank{20, 2, 1}, -1, 1},
		{Rank{20, 1, 1}, Rank{20, 1, 2}, -1, -1},
	} {
		for name, o := range map[string]struct {
			order Order
			want  int
		}{"strict": {Strict, tt.strict}, "fuzzy": {Fuzzy(10), tt.fuzzy}} {
			if got := cmp.Compare(o.order(tt.a, tt.b), 0); got != o.want {
				t.Errorf("in the %s order %+v against %+v is %d, want %d", name, tt.a, tt.b, got, o.want)
			}
			if got := cmp.Compare(o.order(tt.b, tt.a), 0); got != -o.want {
				t.Errorf("in the %s order %+v against %+v is %d, want %d", name, tt.b, tt.a, got, -o.want)
			}
		}
	}
}
