package woven

import "testing"

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAdd(t *testing.T)    { s := Sum{1}; s.Add(2); equal(t, s.total, 3) }
func TestUnit(t *testing.T)   { equal(t, Sum{}.Unit(4, "x"), 1) }
func TestSecond(t *testing.T) { equal(t, Sum{}.Second(4, 5), 5) }
func TestCopied(t *testing.T) { s := Sum{1}; s.Copied(); equal(t, s.Copied(), 2) }
func TestLargest(t *testing.T) {
	t.Run("of ints", func(t *testing.T) { equal(t, Largest(1, 5, 3), 5) })
	t.Run("of strings", func(t *testing.T) { equal(t, Largest("a", "c", "b"), "c") })
}
func TestHalf(t *testing.T) {
	half, err := Half(8)
	equal(t, half, 4)
	equal(t, err, nil)
}
func TestCount(t *testing.T)   { equal(t, Count([][]int{{1, 0, 1}, {2, 3}}), 3) }
func TestLimited(t *testing.T) { equal(t, Limited(9), 7) }
func TestBegan(t *testing.T)   { equal(t, began, 3) }
func TestSafe(t *testing.T)    { equal(t, Safe(func() { panic("x") }) != nil, true) }
func TestFails(t *testing.T)   { t.Error("this test always fails") }
