// Package abs is broken on purpose by the mutants beside it.
package abs

// Abs is x without its sign.
func Abs(x int) int {
	if x < 0 {
		return -x
	}
	return x
}
