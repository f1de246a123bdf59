// Package register gives shared registers their I/O: stores that keep them, sets of stores of which
// a minority may fail, and faults for tests.
//
//	set, err := register.NewSet(stores)       // one, three, five: of internal/host/register/file, …
//	x := set.Register("nightly")              // atomic; set.Regular for regular reads
//	version, err := x.Write(ctx, []byte("v")) // version.Seq is a fencing token
//	value, err := x.Read(ctx)                 // value.Data, value.Version, value.Notes
//
// A machine that uses a register, such as one of package disklease, goes over it so:
//
//	m := quorumregister.Over(claim, set.Config(id, true))
//	access, leave := set.Serve("nightly", id, func(a machine.Accessed) { d.Accessed(a) })
//	d = driver.Start(driver.Config[In, Out]{Machine: m, Access: access, …})
//	…
//	d.Stop()
//	leave()
//
// # Kinds of stores, and their bounds
//
// Memory: in this process. Atomic; nanoseconds; everything is gone with the process.
//
// Package internal/host/register/file: directories and devices. Atomic each. δ is the disk's time
// for the reads and synchronous writes of a batch; measure it.
//
// Package internal/host/register/redis: a server with scripts. Atomic each, as long as the server
// keeps all acknowledged writes. δ is round trips.
//
// A Set is a register with the bounds of package quorumregister: atomic or regular as the user
// chooses, over any majority of its stores, in two rounds of the slowest store of the fastest
// majority. Delays measures that, and [Cell.Bounds] returns it.
//
// # A store's promises
//
// It keeps the greatest version and each writer's newest note, in any order of arrival and however
// late they come. A damaged register reads as damaged, never as empty. Its floor never goes back,
// over restarts too. Package registertest has the suite.
//
// # One worker for a store
//
// Each store has one goroutine, which takes everything that waits and performs it with a
// single Do: many leases share an I/O, without a timer. A store that hangs holds up this
// goroutine and nobody else. At most one access for each writer waits for it, and is
// dropped when the writer leaves.
//
// # Limits
//
// A store that was missing when the set was opened stays missing until the set is
// opened anew. Values are small: [MaxData]. There is no conditional write, for none
// can be made of stores that fail; see quorumregister on a Write with a Seq.
package register
