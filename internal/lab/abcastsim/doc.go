// Package abcastsim judges package abcast in simulated worlds. Clients broadcast at several
// members, again after a crash and at another member. Members crash and come back (or, in
// crash-stop worlds, do not), trim, fall so far behind that they need another's state, come, go
// and are replaced, and are paused and suspected falsely. The network loses, repeats and
// reorders.
//
// In half of the worlds logs are rewritten now and then as Records says, and members start again
// from that.
//
// # Checks
//
//   - Total order: all members deliver the same message at a position.
//   - Contiguity: positions have no gap, from one life to the next either.
//   - No duplication: a client's message is at one position, however often it was broadcast, in half of
//     the worlds with so few clients remembered that some are forgotten all the time. A client that is
//     told that its message is not ordered broadcasts it as another client, and it is still at one
//     position. No creation: a client has broadcast it. A client's messages are in turn.
//   - Agreement and validity: when faults end, members that live have delivered the
//     same, and all that was broadcast at them.
//   - Acknowledgments: a message that a member calls ordered has been delivered by a member.
//   - What consensus owes: package fastctsim's judge watches each instance.
//   - Members: all find the same ones from the same instance on. Members that were removed
//     die for good at any time from when the first member calls the new epoch established.
//   - Lemma 5 in each instance: package fastctsim's judge watches the network.
//
// # Figure 5
//
// [CountFigure5] counts communication steps in stable periods, message by message, and
// [CountCrashes] the cost of a long lease when its holder dies.
//
// TestWeather plays the machines on a stage under random orders of events, without regard
// to time: thousands of runs in a second. Scripts play single schedules by hand;
// mutants show that they notice:
// testdata/mutants/README.md.
package abcastsim
