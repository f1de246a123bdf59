// Package clock reads the clock that a lease is measured by: a monotonic one
// that goes on counting while the machine is suspended.
//
// Go's time.Now and its timers stop during suspend on Linux and macOS. A laptop
// or a virtual machine that slept for an hour would believe that no time had
// passed, and that its leases are still its own. So:
//
//	deadline := clock.Now().Add(ttl)
//	alarm := clock.System.Alarm(deadline) // also rings if we slept past it
//	defer alarm.Stop()
//	<-alarm.C
//
// Linux: CLOCK_BOOTTIME, and one timerfd of that clock per process, armed for
// the earliest alarm, read through the runtime's poller by one goroutine that
// lives while there are alarms. It rings within the scheduler's delay after the
// machine resumes.
//
// macOS: CLOCK_MONOTONIC, which there counts sleep. The kernel offers no timer
// on it that Go's poller could wait for. So a Go timer is slept in slices of a
// quarter of a second, and the clock is looked at after each. An alarm may
// ring that much late after a sleep, and no later than usual otherwise. Linux
// falls back to this when it has no timerfd to give.
//
// Between the moment when a machine resumes and the moment when its alarms have rung, other
// goroutines run. A caller that must not act after a deadline compares Now with it, and
// takes an alarm only as a hint.
//
// The rate of these clocks follows NTP's slewing and the quality of the
// crystal. Rates of two hosts are taken to differ by less than one percent; see
// the engines for their margins. Steps of the wall clock do not matter.
//
// [Judge] finds out whether a clock deserves that trust, as far as the machine's other
// clocks show. It detects that the machine slept or the process stood still, that NTP runs
// the clock at a rate beyond all margins, and that the clock went back. It also detects
// that the clock itself stood still, as in a virtual machine that is frozen and goes on
// elsewhere. The last is seen only when somebody sets the time of day afterwards: until
// then nothing inside the machine differs.
package clock
