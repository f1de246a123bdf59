package diff

import "slices"

// Shrink looks for a shorter list of steps that still fails, by leaving out
// ever smaller parts. It calls fails at most budget times; each call needs new,
// empty servers.
func Shrink(steps []Step, budget int, fails func([]Step) bool) []Step {
	for size := len(steps) / 2; size > 0; {
		removed := false
		for from := 0; from+size <= len(steps) && budget > 0; {
			budget--
			fewer := slices.Delete(slices.Clone(steps), from, from+size)
			if fails(fewer) {
				steps, removed = fewer, true
			} else {
				from += size
			}
		}
		if budget == 0 {
			break
		}
		if !removed || size > len(steps) {
			size = min(size, len(steps)) / 2
		}
	}
	return steps
}
