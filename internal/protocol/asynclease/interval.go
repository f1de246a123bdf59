package asynclease

import (
	"errors"
	"fmt"
	"math"
)

// Interval is the positive integers from First to Last, both included.
type Interval struct{ First, Last uint64 }

// ErrInterval says that an interval is none: it is empty, has zero in it, or goes
// beyond the greatest integer.
var ErrInterval = errors.New("not an interval of positive integers")

// Length returns the interval of n integers from first on.
func Length(first, n uint64) (Interval, error) {
	if n == 0 || first > math.MaxUint64-(n-1) {
		return Interval{}, fmt.Errorf("%w: %d integers from %d on", ErrInterval, n, first)
	}
	i := Interval{first, first + n - 1}
	return i, i.check()
}

// Overlaps reports whether the two have an integer in common. The paper's section 2 has
// a condition that misses the case that o contains i (F1).
func (i Interval) Overlaps(o Interval) bool { return i.First <= o.Last && o.First <= i.Last }

func (i Interval) String() string { return fmt.Sprintf("[%d,%d]", i.First, i.Last) }

func (i Interval) check() error {
	if i.First == 0 || i.First > i.Last {
		return fmt.Errorf("%w: %v", ErrInterval, i)
	}
	return nil
}
