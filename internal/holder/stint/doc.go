// Package stint ends tenures in time. It is what the engines that renew from their own
// clock have in common: a deadline that only a renewal moves, and only before it has
// passed; and an end that is final, whatever comes in later.
//
//	s := stint.Begin(clock.System, deadline)
//	go s.Watch()            // ends it at the deadline, even if nothing else ever happens
//	s.Trouble(err)          // a renewal failed: part of the reason if none succeeds
//	s.Extend(deadline)      // a renewal succeeded; false if it came too late
//	err := s.Check()        // nil while it lasts
//	err = s.End(reason)     // it is given up; err says how it ended in fact
//
// What a renewal is, and when its deadline is, are the engine's.
package stint
