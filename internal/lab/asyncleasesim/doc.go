// Package asyncleasesim judges package asynclease in simulated worlds. Members ask for
// intervals that overlap, return tails, forget, crash in the middle and come back (or, in
// crash-stop worlds, do not). The network loses, repeats and reorders.
//
// # Checks
//
//   - At most once (Lemma 1): no integer is ever granted twice, crashed holders included,
//     unless its holder gave it back before.
//   - Mandatory leasing (Lemma 2): a request that is refused was preceded by another invocation
//     with an interval that overlaps, or asked below a floor.
//   - Wait-freedom (Lemma 3): a member that asks and lives is answered while a majority works,
//     and by the end of the faults at the latest.
//   - One verdict for each invocation, and none that was not asked for.
//
// TestWeather plays the machines on a stage under random orders of events, without regard
// to time: thousands of runs in a second. Scripts play single schedules by hand;
// mutants show that they notice:
// testdata/mutants/README.md. Figure 1 (a) to (f) of the paper are golden files of
// package asynclease itself.
package asyncleasesim
