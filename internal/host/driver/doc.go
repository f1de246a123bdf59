// Package driver runs a machine.Machine for real. It has two goroutines: one at a time steps
// the machine, and one at a time makes its records durable, many at once.
//
//	d := driver.Start(driver.Config{
//		Machine: m,
//		Now:     clock.Now,             // counts suspend, if anything rests on time
//		Send:    transport.Send,        // must not block
//		Persist: log.Persist,           // blocks until durable
//		Outcome: owner.handle,          // on the goroutine that steps: be quick
//		Fail:    func(err error) { … }, // a record could not be made durable
//	})
//	d.Step(input)                           // from any goroutine
//	d.Stop()
//
// Inputs queue up while the machine is being stepped and are then stepped
// together, before one Ready: under load batches form by themselves, and
// nothing waits for a timer when there is none. The same holds for records: all
// that came up during one fsync share the next.
//
// Accesses to shared storage are begun by the owner's Access, which must not block,
// and come back as inputs.
//
// Who has stepped something that has to be durable writes it himself; only if something
// comes meanwhile the other goroutine is woken, and steps that. What has to be durable of it
// is written next, by who writes already, and the other steps what waited for the first
// write. So a machine with one input at a time has one goroutine, and under load stepping
// and writing go on side by side. Nobody has to find out which of the two it is.
//
// Two options are for owners whom waking somebody costs more than to wait: with
// Config.Linger records that nothing waits for are written with the next that is forced,
// and with Config.Hold what is sent waits for those who were told something, and may have an
// answer.
//
// Benchmarks count what each of these saves: BenchmarkLinger the writes, BenchmarkHold the calls of
// Send, and BenchmarkTurns the turns, of which many inputs share one because the stepping goroutine
// lets others go first while a turn has several inputs. Package broadcast sets both options.
//
// After a failed Persist nothing that waited for it, or for a later record, is
// ever sent: the driver stops stepping and calls Fail once. See package machine
// for the duties that a driver keeps.
package driver
