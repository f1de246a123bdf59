// Package driver runs a machine.Machine for real. It has two goroutines: one at a time steps
// the machine, and one at a time makes its records durable, many at once.
//
//	d := driver.Start(driver.Config[In, Out]{
//		Machine: m,
//		Now:     clock.Now,             // counts suspend, if anything rests on time
//		Send:    transport.Send,        // must not block
//		Persist: log.Persist,           // blocks until durable
//		Outcome: owner.handle,          // on the goroutine that steps: be quick
//		Fail:    func(err error) { … }, // a record could not be made durable
//	})
//	d.Step(input)                           // from any goroutine
//	d.Offer(messages...)                    // waits while too much is queued
//	d.Stop()
//
// Inputs queue up while the machine is being stepped. The driver then steps them together,
// before one Ready: under load batches form by themselves, and without load nothing waits
// for a timer. The same holds for records: all that came up during one fsync share the
// next.
//
// The owner's Access begins accesses to shared storage, and must not block. Driver.Accessed
// reports their ends.
//
// A goroutine that has stepped something that has to be durable writes it itself. It wakes
// the other goroutine only if an input comes meanwhile, to step that input. The writing
// goroutine writes the records of that turn next, and the other goroutine steps the
// envelopes that waited for the first write. So a machine with one input at a time has one
// goroutine, and under load stepping and writing go on side by side. The driver need not
// know which of the two cases it has.
//
// Two options are for owners for which a wake-up costs more than a short wait. With
// Config.Linger, records that nothing waits for are written with the next forced record.
// With Config.Hold, messages wait until the callers that a turn has answered had a chance to
// say more.
//
// Benchmarks count what each of these saves: BenchmarkLinger the writes, BenchmarkHold the calls of
// Send, and BenchmarkTurns the turns. Many inputs share a turn, because the stepping goroutine
// lets others go first (runtime.Gosched) while a turn has several inputs. Package broadcast sets
// both options.
//
// After a failed Persist the driver never sends what waited for that record or a later one:
// it stops stepping and calls Fail once. See package machine for the duties of a driver.
package driver
