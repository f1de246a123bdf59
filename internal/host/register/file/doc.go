// Package file keeps registers in a directory or on a device that several machines
// share: the register.Store whose base is storage that has no server of ours.
//
//	err := file.Init("/mnt/shared/leases", register.Header{…}, file.InitOptions{})   // once
//	s, err := file.Open("/mnt/shared/leases", file.Options{Clock: clock.Now, …})      // each process
//	defer s.Close()
//	replies := s.Do([]register.Op{{Name: "nightly", Writer: me, Op: quorumregister.Query{}}})
//
// Plain storage cannot compare versions, so writers must not share blocks: a late write of
// an old version would undo a newer one. So, as in Disk Paxos, each writer writes a place
// of its own, and a reader reads all places and takes the greatest version. Machines that
// never met get different places because a place is named by a random identity, made with
// each Open.
//
// # Layout
//
//	DIR/TENURE          the header: format, register.Header, single-host or not
//	DIR/handles/<id>    one file for each opened Store that has written something
//	DIR/handles/<id>.<random>    the same file, condemned: see Tidiness
//	DIR/lifelines/<id>           a file for each claim, on one machine only: see Lifelines
//
// A handle's file is [header][farewell][copy A of each slot][copy B of each slot] in blocks of 4096
// bytes, each with a CRC-32C, its place and a generation in it. A slot holds one writer's record of
// one register: data under a version, and a note. The file is written whole under a temporary name,
// and linked when it is durable; it never changes its size. A handle that needs more slots moves to
// a larger file. A device, or a preallocated file, has areas in place of files: see below.
//
// Accesses bypass the host's cache and are durable when they end (O_DIRECT|O_SYNC), or
// use the cache if the header says that the store is for the processes of a single
// host.
//
// # Writing
//
// A Put or PutNote goes to copy A of the slot and then to copy B, neighbouring slots together: to
// renew many leases is two writes. It is acknowledged when both are complete, so that each
// completed write is in both copies, or in one while the other is written. When a slot passes to
// another register, both copies first get the new name alone. So the good copy of a damaged slot
// shows which register is affected.
//
// After a write that failed the handle moves to a new file with all its records, the failed one
// included: a reader may have met it, and must not see the register go back. A write that got stuck
// on its way to the old file lands where no process looks. After each write it is checked that the
// path still leads to the file. If the host cannot check that, the write is not acknowledged, and
// nothing counts as taken away.
//
// # Reading
//
// A Query lists the files, reads each, several at a time, and lists again. Every readable
// copy counts, an older one beside a newer one too. The Query takes from them only the
// greatest version, the newest note of each writer, and the greatest Seq, so more evidence
// does no harm. A Query sees each write that was complete before it began, or a greater
// one, because:
//
//  1. At any time, some file holds it or a greater version: a record is given up only
//     after a greater one of the register is elsewhere, or when nobody needs the register
//     at all. Of equal versions the order of places says which counts as greater, so
//     that no two records are given up for each other's sake.
//  2. A file that was listed and is gone when it is to be opened makes a new list.
//  3. A slot is used anew only after it has been outdone for the wait (see below). A look that
//     takes nine tenths of the wait is made again, for clocks differ. So a look that met the
//     slot's new contents also met the record that had outdone the old.
//  4. If a list is a snapshot of the directory, that is all. Another list can miss a file that was
//     added behind the point that it had reached, together with the file that was removed for
//     it. Then the second list differs. To be missed in both lists, a handle would have to be
//     opened, written, outdone and closed, all during one look and in step with its lists. A
//     file is also missed if it is condemned in front of that point and pardoned behind it,
//     twice and in step with both lists, by processes that were stopped before they renamed it.
//     Local filesystems list in one step the names of one system call, about a thousand
//     handles, so among so few even that cannot happen. Package internal/lab/storageworld plays
//     lists of two steps, between which processes stand still.
//
// So one Store is an atomic register: a version that was seen is in a copy, and stays until it is
// outdone. The exception is a power loss of the storage in the middle of a write, which may take
// back a version that was seen but not acknowledged.
//
// # Damage
//
// A block that cannot be decoded was torn by a crash, or is rotten, or is being written. It is read
// again at once, a few times. If it stays unreadable, Queries of the register that the other copy
// names fail with register.ErrDamaged; of all registers, and Names, if both copies are. That ends
// when the slot reads well. It also ends when its bytes have not changed for register.Header.Quiet
// by the reader's clock: a living holder would have written it anew. Then the good copy counts, or
// none, and the floor of the store is raised beyond the lost versions. A handle that meets damage
// of its own moves to a new file, so nobody has to wait. An error of reading is never taken for
// damage: the storage of others may work.
//
// # Going away
//
// All operations return register.ErrGone in three cases. First, while the store's directory
// or its header is missing; the header is read eight times in a wait. Newcomers find no
// store without a header, and holders must not go on beside the store that newcomers may
// make. Second, for the wait after the handle's own file was taken away or went back to an
// older state: other handles' files may have too. The handle's records are written again at
// once. Third, for ever when another process was found to write as this handle, as when a
// virtual machine was copied. One that opens the store after such meddling cannot know: a
// base restored from a backup counts as failed, and with a single base there is no remedy.
// It is safe to stop all processes and wait Quiet.
//
// # Tidiness
//
// Slots of writers that left (register.Leave) are used anew, and useless files are removed.
// A record is useless when Options.Obsolete says that nobody needs it, or when a greater
// version is elsewhere and there is no note. A file is removed only if its handle said
// farewell (Close) or has not changed a byte for the wait. The record with a register's
// greatest version goes last, and never the last witness of the greatest Seq: tokens only
// grow. Records of holders that died stay until their register is taken over.
//
// The handle of a silent file may be alive and write at any moment, and the process that
// tidies up may be stopped for an hour before any system call. So a file is removed in two
// steps, and no clock has a part in why that is safe; clocks only say when it is tried.
//
//  1. Condemn: the file is renamed, to a name that is used once. Any file may be condemned
//     at any time. Its handle sees that the path no longer leads to the file before it
//     acknowledges the next write, and moves to a new file with all it has.
//  2. Remove: a look that listed the file as condemned finds that nobody needs its records.
//     Otherwise the looking process pardons the file, which gives it the first name back, and
//     looks again before it answers. A process without the right to write answers with an
//     error.
//
// Let a write W be acknowledged, or be seen by an answered look, in file F under its first
// name. W was in F before F was condemned next: the handle, and the look's second list,
// found the first name after that. So each look that lists F as condemned meets W, and F
// is removed under that name only if W is given up. A removal that was decided by an earlier
// look was of an earlier name, and fails. W that comes in later still is not acknowledged
// there, and an answered look has either not met it or has pardoned F.
//
// A record R is given up in favour of another R' that is greater in one order: by version,
// and among equal versions by file and slot. R' counts if it was met under a first name, so
// that R' in turn goes only for a greater one that does. There is no cycle, however long a
// process stands still between a look and its removals: a greatest record stays.
//
// An example: handles 3 and 5 have the files F3 and F5, and register "nightly" has version
// 7 in F3 and version 8 in F5. Process P looks, sees 8 in F5, and decides to give up 7. It
// condemns F3 and is stopped for an hour. Meanwhile handle 3, which is alive, writes
// version 9. Its check finds that the first name no longer leads to F3, so it moves to a
// new file, F3', with its records, and acknowledges 9 there. P goes on and looks again: the
// condemned F3 has 9, but F3' has 9 too, under a first name. P removes F3, and nothing is
// lost. Had handle 3 been stopped before it could move, the look would have met 9 in F3 and
// nowhere else, and P would have pardoned F3. The files of one handle ascend in that order,
// for it removes the old one by itself. The same holds for the greatest Seq. A record that
// Obsolete lets go has no such heir: a look may meet it or not, and both answers are right.
//
// Files half made have another suffix. One that is removed before its handle has linked it
// makes the link fail; once it is linked, its temporary name is nobody's.
//
// # Devices
//
// Block 0 of a device is the header. Then come two claim blocks for each area, and the areas. The
// first claim block is a register of package disklease, and the second has the note of the claim
// that was released last. Open takes an area by Figure 2 of the paper and keeps it by Figure 5,
// with the header's Term and Delay. It does not wait if the last claim was released. A claim block
// that cannot be decoded counts as the claim of a handle that may live. Records of earlier handles
// in the area stay until nobody needs them. If the claim runs out, operations fail with
// register.ErrGone until another area is had. On a device that is slower than Delay, a contest
// fails, and its area looks claimed for a while; the claim that failed has told the next one to
// allow for more.
//
// Each write to an area is checked before, and before it is acknowledged, against the
// claim's deadline. The assumption, in addition to those below: a write lands no later than
// a Term after the first of these checks. So an area whose handle died is free two Terms
// and six Delays after its last renewal, or a little later on a slow device. A process may
// be stopped for longer than a Term exactly between the check and the write. Then its write
// undoes that of the area's next handle in the same slot, until that handle looks and
// writes it anew. Where this cannot be excluded, use a directory: there a late write meets
// a file that nobody reads.
//
// Devices are tested in preallocated files, and in simulated worlds in which writes are slow,
// stuck, lost or torn; block devices are opened on Linux only.
//
// # Assumptions
//
// Direct reads see all completed direct writes, on every host. Names and attributes are
// not cached: NFS has to be mounted noac or actimeo=0, which is checked, on Linux. Of
// other network filesystems nothing is known or checked. Hard links, for directories. A
// block is never mixed with another and passes CRC-32C by chance only. Identities are
// random. Clocks count suspend and differ from true time by at most 4 %.
//
// # Costs
//
// The unit is a bare direct read of a handle's file (72 KiB), or a bare direct write of 4 KiB, in
// the same run: medians on local ext4. A Query takes 2 to 3 reads with one handle, 8 with 10, and
// 60 with 100. A Put takes 2 writes. Renewing 64 leases in one batch costs twice as much as
// renewing one (go test -bench .).
//
// # Differences and omissions
//
// A handle's file does not grow in place but is replaced, so that both copies of many slots are two
// runs, and a file is whole whenever it is seen. One damaged copy could be masked at once, since
// each completed write is in the other as well. Package file does not mask it, so that a register
// never goes back, not even behind a write that was seen without having been acknowledged. There is
// no repair tool. If a damaged handle's process is surely dead, an operator may remove its file.
package file
