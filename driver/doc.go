// Package driver runs a machine.Machine for real: one goroutine steps it, a
// second makes its records durable, many at a time.
//
//	d := driver.Start(driver.Config{
//		Machine: m,
//		Now:     clock.Now,             // a clock that counts suspend
//		Send:    transport.Send,        // must not block
//		Persist: log.Persist,           // blocks until durable
//		Outcome: owner.handle,          // on the stepping goroutine: be quick
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
// Two options are for owners whom a turn of the second goroutine costs more than it gains:
// with Config.Alone the first writes while nobody else waits for it, and with Config.Linger
// records that nothing waits for are written with the next that is forced.
//
// After a failed Persist nothing that waited for it, or for a later record, is
// ever sent: the driver stops stepping and calls Fail once. See package machine
// for the duties that a driver keeps.
package driver
