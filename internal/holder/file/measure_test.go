package file

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestTheSlowestDirectoryCounts: δ is chosen for all stores of a set, in any order.
func TestTheSlowestDirectoryCounts(t *testing.T) {
	for _, slow := range []int{0, 1, 2} {
		paths := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		var mu sync.Mutex
		var reading machine.Mono
		// While something is measured in the slow directory, time goes a hundred times as fast.
		now := func() machine.Mono {
			mu.Lock()
			defer mu.Unlock()
			step := 100 * time.Microsecond
			if left, _ := filepath.Glob(filepath.Join(paths[slow], "*.new")); len(left) > 0 {
				step = 10 * time.Millisecond
			}
			reading = reading.Add(step)
			return reading
		}
		h, err := initBy(t.Context(), now, paths, Spec{SingleHost: true})
		if err != nil {
			t.Fatal(err)
		}
		if h.Delay < 40*time.Millisecond {
			t.Errorf("store %d is slow, and δ is %v, as if there were only the others", slow, h.Delay)
		}
	}
}
