package disklease

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// attempt reads and writes under a rank, with a value of its own.
func attempt(counter uint64, id byte) []any {
	r := rank(counter, id)
	return []any{RRRead{r}, RRWrite{r, fmt.Appendf(nil, "%d.%d", counter, id)}}
}

// TestPropertiesInAllCourses plays all interleavings of the accesses of a few attempts.
func TestPropertiesInAllCourses(t *testing.T) {
	join := func(ops ...[]any) (script []any) {
		for _, o := range ops {
			script = append(script, o...)
		}
		return script
	}
	tests := []struct {
		name    string
		bases   int // 0: notes
		dead    int // so many hang
		scripts [][]any
	}{
		{"one base", 1, 0, [][]any{attempt(1, 1), attempt(1, 2), attempt(2, 3)}},
		{"three bases, two attempts", 3, 0, [][]any{attempt(1, 1), attempt(1, 2)}},
		{"three bases, one hangs", 3, 1, [][]any{attempt(1, 1), attempt(1, 2)}},
		{"notes, two attempts", 0, 0, [][]any{attempt(1, 1), attempt(1, 2)}},
		{"notes, three attempts", 0, 0, [][]any{attempt(1, 1), attempt(1, 2), attempt(2, 3)}},
		{"notes, two times two attempts", 0, 0, [][]any{join(attempt(1, 1), attempt(2, 1)), join(attempt(1, 2), attempt(2, 2))}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var callers []Proposer
			ops := 0
			for _, s := range test.scripts {
				callers = append(callers, &caller{script: s})
				ops += len(s)
			}
			began := time.Now()
			m := newModel(test.bases, callers...)
			m.dead = test.dead
			states, ends, err := explore(m, func(m *model, last bool) error {
				if err := m.history.err(); err != nil {
					return err
				}
				for _, o := range m.history {
					if last && o.reply == nil || last && len(m.history) < ops {
						return fmt.Errorf("Property 6: %v", m.history)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d ends, %v", states, ends, time.Since(began))
		})
	}
}

// TestPropertiesAtRandom has more bases and processes, ranks that do not only grow,
// operations that are repeated because an access failed, and a minority that hangs.
func TestPropertiesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bases := rapid.SampledFrom([]int{0, 0, 1, 3, 4, 5}).Draw(t, "bases")
		var callers []Proposer
		for id := range rapid.IntRange(2, 4).Draw(t, "callers") {
			c := &caller{}
			for range rapid.IntRange(1, 6).Draw(t, "operations") {
				of := attempt(rapid.Uint64Range(1, 4).Draw(t, "counter"), byte(id+1))
				c.script = append(c.script, rapid.SampledFrom(of).Draw(t, "operation"))
			}
			callers = append(callers, c)
		}
		m := newModel(bases, callers...)
		if bases > 0 {
			m.dead = rapid.IntRange(0, (bases-1)/2).Draw(t, "dead")
		}
		m.wander(t)
		m.finish()
		if err := m.history.err(); err != nil {
			t.Fatal(err)
		}
		for _, o := range m.history {
			if o.reply == nil {
				t.Errorf("Property 6: %v has not returned", o.op)
			}
		}
	})
}
