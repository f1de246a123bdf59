package keyspan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func sp(key, end string) Span { return Span{Key: []byte(key), End: []byte(end)} }

func TestNormalize(t *testing.T) {
	tests := []struct {
		in   Set
		want string
	}{
		{nil, `{}`},
		{Set{sp("b", ""), sp("a", ""), sp("b", "")}, `{"a", "b"}`},
		{Set{sp("a", ""), sp("a\x00", "")}, `{["a", "a\x00\x00")}`},
		{Set{sp("a", "a\x00")}, `{"a"}`},
		{Set{sp("b", "c"), sp("a", "b")}, `{["a", "c")}`},
		{Set{sp("a", "d"), sp("b", "c"), sp("d", "")}, `{["a", "d\x00")}`},
		{Set{sp("c", "b"), sp("b", "b")}, `{}`},
		{Set{sp("a", "\x00"), sp("z", ""), sp("b", "c")}, `{["a", …)}`},
		{Set{sp("", ""), sp("\x00", "")}, `{"", "\x00"}`},
		{Set{All(), sp("a", "")}, `{["", …)}`},
		{Set{sp("a", "b"), sp("c", "d")}, `{["a", "b"), ["c", "d")}`},
	}
	for _, tt := range tests {
		if got := slices.Clone(tt.in).Normalize().String(); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestSetsAgainstTheirKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := someSet(t, 5)
		na := slices.Clone(a).Normalize()
		if got, want := keysOf(na), keysOf(a); !slices.Equal(got, want) {
			t.Fatalf("%v became %v: got keys %q, want %q", a, na, got, want)
		}
		for i := 1; i < len(na); i++ {
			if na[i-1].touches(na[i]) || string(na[i-1].Key) >= string(na[i].Key) {
				t.Fatalf("%v is not normalised", na)
			}
		}
		if len(a) > 0 {
			for _, k := range universe {
				if got, want := a[0].Contains([]byte(k)), slices.Contains(keysOf(a[:1]), k); got != want {
					t.Fatalf("%v contains %q: got %v, want %v", a[0], k, got, want)
				}
			}
		}
	})
}

// TestForgetKeepsWhatIsAbove: a state that was captured at an index may lack what comes after it.
func TestForgetKeepsWhatIsAbove(t *testing.T) {
	var table Table
	for i := uint64(1); i <= 3; i++ {
		table.Add(i, Set{{Key: []byte{byte(i)}}}, nil)
	}
	table.ReleaseThrough(3)
	table.Forget(2)
	for i, want := range []uint64{1: 0, 2: 0, 3: 3} {
		if got := table.LastTouch(Set{{Key: []byte{byte(i)}}}); got != want {
			t.Errorf("after Forget(2) the last change of key %d is %d, want %d", i, got, want)
		}
	}
}

// TestEmptyMeetsNothing: a range that ends before it begins has no keys, whatever lies around it.
func TestEmptyMeetsNothing(t *testing.T) {
	empty, around := sp("b", "a"), sp("0", "z")
	if empty.Meets(around) || around.Meets(empty) || empty.Meets(empty) || empty.Contains([]byte("b")) || !empty.empty() {
		t.Errorf("%v meets %v: %v, %v; itself: %v; contains its first key: %v; want it empty", empty, around, empty.Meets(around), around.Meets(empty), empty.Meets(empty), empty.Contains([]byte("b")))
	}
}
