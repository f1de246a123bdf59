package driver

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// The timer is not set anew for an alarm that is put off, and is for one that is put
// forward: either rings in time, and once.
func TestAlarmsThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		d := start(t, m, &world{}, 0)
		began := time.Now()
		at := func(after time.Duration) effects {
			return effects{Alarm: machine.Mono(time.Since(began)+after) + 1}
		}
		d.Step(at(500 * time.Millisecond))
		synctest.Wait()
		d.Step(at(800 * time.Millisecond)) // put off: the timer rings at 500, and is set again
		time.Sleep(600 * time.Millisecond)
		d.Step(at(100 * time.Millisecond)) // put forward, to 700
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var rang []machine.Mono
		steps, times, _ := m.saw()
		for i, in := range steps {
			if in == any(wake{}) && times[i] > 1 {
				rang = append(rang, times[i])
			}
		}
		if want := []machine.Mono{machine.Mono(700*time.Millisecond) + 1}; !slices.Equal(rang, want) {
			t.Errorf("woken at %v, want %v", rang, want)
		}
	})
}
