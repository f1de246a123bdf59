package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestSimulated(t *testing.T) {
	const s = machine.Mono(time.Second)
	for _, tt := range []struct {
		name  string
		steps func(*Simulated)
		reads machine.Mono  // afterwards
		rings time.Duration // when the alarm for 100 s does, by true time
	}{
		{"as time does", func(*Simulated) {}, 0, 100 * time.Second},
		{"twice as fast", func(c *Simulated) { c.SetRate(2); time.Sleep(10 * time.Second) }, 20 * s, 50 * time.Second},
		{"half as fast, then as time does", func(c *Simulated) {
			c.SetRate(0.5)
			time.Sleep(10 * time.Second)
			c.SetRate(1)
		}, 5 * s, 105 * time.Second},
		{"frozen", func(c *Simulated) {
			c.Freeze()
			time.Sleep(1000 * time.Second)
			c.Thaw()
			time.Sleep(time.Second)
		}, 1 * s, 1100 * time.Second},
		{"ahead", func(c *Simulated) { c.Jump(60 * time.Second) }, 60 * s, 40 * time.Second},
		{"back", func(c *Simulated) { time.Sleep(10 * time.Second); c.Jump(-5 * time.Second) }, 5 * s, 105 * time.Second},
		{"past the alarm", func(c *Simulated) { c.Jump(200 * time.Second) }, 200 * s, 0},
		{"set while it stands", func(c *Simulated) { c.Freeze(); c.Jump(7 * time.Second); time.Sleep(time.Second); c.Thaw() }, 7 * s, 94 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := NewSimulated(0)
				alarm := c.Alarm(100 * s)
				stopped := c.Alarm(50 * s)
				stopped.Stop()
				rang := make(chan time.Duration)
				go func() { <-alarm.C; rang <- time.Since(began) }()
				tt.steps(c)
				if got := c.Now(); got != tt.reads {
					t.Errorf("it shows %v, want %v", time.Duration(got), time.Duration(tt.reads))
				}
				if got := (<-rang).Round(time.Millisecond); got != tt.rings {
					t.Errorf("the alarm for 100 s rings after %v, want %v", got, tt.rings)
				}
				select {
				case <-stopped.C:
					t.Error("an alarm rings that was stopped")
				default:
				}
			})
		})
	}
}

// A rate of nothing would put alarms off for ever, and one below makes time go back: both are
// refused.
func TestRatesThatAreNone(t *testing.T) {
	for _, rate := range []float64{0, -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a rate of %v is taken", rate)
				}
			}()
			NewSimulated(0).SetRate(rate)
		}()
	}
}
