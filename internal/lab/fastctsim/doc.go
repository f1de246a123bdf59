// Package fastctsim judges package fastct over package asynclease in simulated worlds.
// Members propose to one instance after the other, or to some at once. They crash in
// the middle of a round and come back (or, in crash-stop worlds, do not), and are
// paused and suspected falsely. Their network loses, repeats and reorders. Some worlds
// play CT96 without leases.
//
// In half of the worlds logs are rewritten now and then as Records says, and members start again
// from that.
//
// # Checks
//
//   - Uniform agreement (Lemma 6), validity, integrity: of crashed members, too, and
//     from one life to the next.
//   - Termination (Lemma 7): when faults end, all living members decide all instances.
//   - Lemma 5: an instance has one FAST round in which something is imposed, and each
//     round has one estimate.
//   - Lemma 6 in messages: behind a round that was locked nothing else is imposed; and B-1, on
//     which it rests: a member's estimate has its earlier acknowledgments, of any life. A break
//     of either is seen long before a member decides otherwise.
//
// TestWeather plays the machines on a stage under random orders of events, without regard
// to time: thousands of runs in a second. Scripts play single schedules by hand, the
// deadlocks of section 4.2.2 among them;
// mutants show that they notice: testdata/mutants/README.md.
package fastctsim
