// Package stage is where scripts play: machines of which nothing moves but by the
// script. It is the counterpart of package sim's random worlds, for schedules that
// random search does not find.
//
//	s := stage.New[asynclease.Input, asynclease.Verdict](t)
//	s.Start(1, machineOfMember1)        // …
//	s.Step(1, asynclease.Ask{…})
//	s.Pass(stage.To(2), stage.Kind[asynclease.Lease]())
//	s.Lose(stage.To(3))
//	s.Crash(2)
//	s.Start(2, restarted(s.Durable(2)))
//	s.Settle()                          // all that is under way arrives
//
// Messages wait on the wire until the script passes, repeats or loses them; records
// are durable at once unless the script holds a member's disk. Time passes by Wait.
//
// Weather plays a stage at random, and Storms a test of it under many seeds:
//
//	var storms = stage.NewStorms(2000)  // flags -storms and -storm
//
//	func TestWeather(t *testing.T) { storms.Play(t, weather) }
package stage
