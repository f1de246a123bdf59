// Package quorumregister makes one register out of n that may fail: the "reliable
// registers" of section 3.2 of Chockler and Malkhi, Light-Weight Leases for
// Storage-Centric Coordination. Any minority of the bases may crash, hang or answer
// ever so late; the register goes on.
//
//	m := quorumregister.Over(inner, quorumregister.Config{
//		Writer: id, Bases: 3, Atomic: true,
//		Quiet: term + 6*delay, Retry: delay,
//	})
//	// inner asks for machine.Read, Write and Note at 0;
//	// m asks for Query, Put and PutNote at the bases 0, 1 and 2.
//
// [Client] is the same for an owner that is no machine. Both are pure; package
// register drives them against real stores, package internal/lab/quorumregistersim against
// simulated ones.
//
// # What a base does
//
// It keeps the greatest version that it was given, and of each writer the note with
// the greatest Seq. So a Put that got stuck and lands an hour late changes nothing
// if the register has gone on. It never compares and swaps, and need not know the
// other bases and writers.
//
// # Operations
//
// n bases, t = (n-1)/2 of which may fail, and m = n-t is a majority.
//
//	Write  Query all, await m; Put (greatest Seq or Floor seen)+1 to all, await m
//	Write  with a Seq: only the Put, under that Seq
//	Read   Query all, await m; return the greatest version
//	       atomic: unless m bases are known to hold it, Put it to all, await m, then return
//	Note   PutNote under this writer's next number to all, await m
//
// An access, its cost, and its time when nothing fails:
//
//	             Queries  Puts   round trips
//	Read            n      0     1
//	Read, atomic    n      0..n  1, or 2 while a write is under way or was cut short
//	Write           n      n     2
//	Write with Seq  0      n     1
//	Note            0      n     1
//
// The bound δ of package disklease has to cover the two round trips of a Write, or
// of an atomic Read, to the m fastest bases.
//
// When exactly can an atomic read leave out the Put? A base that has shown or acknowledged
// a version to this process holds that or a later one from then on. So it is enough to
// count the bases that ever showed or acknowledged the version to return, or a later one,
// in this operation or before. With m of them, every later operation meets one. With one
// base that is always so.
//
// An example with three bases A, B and C, n = 3 and m = 2: version 7 is at all three. A
// writer puts version 8 and stops when only A has it. An atomic read asks all, and A and B
// answer first: 8 and 7. The greatest version is 8, and only A is known to hold it. So the
// read puts 8 to all and returns it once B has acknowledged too. A later read hears from
// two bases, at least one of them A or B, and returns 8 or more. A regular read would have
// returned 8 at once, and the next one, asking B and C, 7 again.
//
// # Why it is regular
//
// Think of each operation as the interval from when it is asked for to when it is
// answered; o1 -> o2 says that o1's ends before o2's begins. Two sets of m bases have
// a base in common, and a base's version never goes back. Hence:
//
//	(1) If a write of version v ended, m bases hold v or later: every operation
//	    that begins afterwards sees v or later.
//	(2) So if w1 -> w2, then v(w1) < v(w2), for w2 chooses a greater one.
//	(3) If w -> r, then v(w) <= v(r), the version that r returns. And r returns
//	    what was written by a write that began before r ended.
//
// Versions are unique: the writer is part of them, and a writer never uses a Seq
// twice, not even that of a write that failed, for such a write may yet take effect.
// Let π be all writes by version, with each read straight after the write that it
// returns (or at the beginning). For a read r, the last write before it in π is the
// one that it returns, so its projection is legal. It is consistent with -> by (2),
// (3), and because nothing that begins after r is in its projection. It is one π for
// all reads: Definition 1 of the paper, which is MWR2 of Shao, Pierce and Welch.
//
// # Why it is atomic, if asked
//
// When an atomic read ends, m bases hold its version or a later one. So if r1 -> r2
// then v(r1) <= v(r2), and if r -> w then v(r) < v(w). Order by version, at equal
// versions the write first and then the reads by when they began: that is legal
// and respects -> for all operations. Without the Put, two reads while one write is
// under way may see the new value and then the old.
//
// # A Write with a Seq
//
// It is meant for a Value's Next. It loses to whatever greater version was put
// between that read and it, silently; a read tells. In the terms above it is a write
// whose interval begins with that read. Of two writes with one Seq the greater
// writer wins, so it is no compare-and-swap: none can be made of such bases that
// survives a hang.
//
// # Notes
//
// Each writer has one, numbered by a counter of its own. They are regular registers
// with a single writer: a read shows the last note that was complete when the read
// began, or a later one. They are not written back, so two reads in a row may
// show a note that is being set and then the one before, in atomic mode too.
//
// # Wait-free
//
// No operation waits for more than m bases, so none waits as long as a majority
// works. One access at a time is outstanding at each base; one that hangs is asked
// nothing more until it answers, and then what is needed then. So a dead disk piles
// up nothing. Operations are served one after the other.
//
// An access that failed counts as none and is tried again after Config.Retry, for as
// long as the operation lasts. When more than t have failed the operation ends with
// [ErrMinority] and their errors. Bases that hang are waited for: a caller with a
// deadline has to give up by itself.
//
// # Bases that go back
//
// A disk that is restored from an old copy, or a server that lost its memory, is not among
// the failures that n > 2t masks. (Written to A and B; B is restored; B and C are read: the
// old value.) A process notices if a base shows less than it showed or acknowledged to this
// process before: a smaller version or note, or a smaller floor. It reports [Stale] and
// does not count the base until Config.Quiet has passed, and it holds all again that this
// process knows; that much the process puts there. For leases that is enough: a lease that
// the base forgot and nobody knows has expired by then.
//
// Not masked: a process that has no memory of the base, such as one that has just
// begun, cannot notice. Nor can a process whose knowledge is older than the copy.
// Nor can one that knew only of a register that others wrote, if the base has
// forgotten that register entirely and its floor is high again. A base that forgets
// notes that nobody needs looks the same. A register used for something other than
// leases loses what only bases knew that went back. And a restored base lacks the
// notes of others until they set them again.
//
// # Assumptions
//
//   - Minority: at most t bases crash, hang or answer late.
//   - Memory: a base that acknowledged something holds it, or is seen to be stale.
//   - Honesty: bases show only what was put. A bad checksum is a failed access.
//   - Identity: Config.Writer belongs to one machine, once.
//
// Time plays no part, but for Retry and Quiet.
//
// # Left out
//
// Bases that lie, which take n > 3t (Abraham, Chockler, Keidar, Malkhi: Byzantine
// Disk Paxos). Changing the set of bases. Waiting for more than m replies to make a
// later read cheaper.
package quorumregister
