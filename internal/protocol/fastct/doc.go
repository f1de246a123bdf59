// Package fastct is consensus that takes three communication steps instead of four as
// long as one process leads: FastCT of P. Dutta, R. Boichat and R. Guerraoui,
// "Asynchronous Leasing", section 4. With Config.Plain it is the algorithm of Chandra
// and Toueg (JACM 43(2), 1996) that it comes from. Nothing rests on clocks: a wrong
// timeout costs rounds.
//
//	m, err := fastct.New(fastct.Config{ID: 1, Members: ids, Lambda: 100, …}, records)
//	m.Step(now, fastct.Propose{CN: 7, Value: v})
//	rd := m.Ready()         // Outcomes: WantLease{ID, 7, 106}, to be answered by
//	m.Step(now, fastct.Leased{ID: …, Granted: true})
//	…                       // Outcomes: Decided{CN: 7, Value: …}
//
// [Machine] is a member's part in all instances, a machine.Machine. Leases come from
// package asynclease; abcast.Consensus joins the two. docs/rules.md defines the rules F8 to
// F21 and B-1. Package internal/lab/fastctsim judges them in worlds where everything fails.
//
// # What it promises
//
// Validity, integrity, uniform agreement (crashed members included), and termination if
// a majority works, all that work propose or follow Wanted, and eventually some member
// that works is suspected by nobody.
//
// # How (Figure 4)
//
// Rounds have a coordinator each. FAST rounds are 0 to n-1, and an instance begins with
// that of the process which the member trusts; NORMAL rounds are n and above.
//
//	1   all send ESTIMATE to the coordinator
//	2F  the FAST coordinator needs the lease, and sends NEWESTIMATE with its own value
//	2N  a NORMAL coordinator needs a majority of ESTIMATEs, and sends the one adopted last
//	3   all adopt what NEWESTIMATE says and send ACK, or NACK if the coordinator is
//	    suspected or says ABORT
//	4   with a majority of ACKs the coordinator sends DECIDE; with a NACK among the first
//	    majority of replies it goes on
//
// A FAST coordinator need not ask what was locked before, for its is the only FAST round
// in which something is imposed (Lemma 5): the lease is granted once, and used once.
//
// Three invariants keep that safe, and package internal/lab/fastctsim checks them at each
// message. An instance has one FAST round with a NEWESTIMATE (Lemma 5). Each round has one
// estimate, and all that are imposed behind a majority's ACKs are the same (Lemma 6). A
// member that has sent ESTIMATE in a NORMAL round acknowledges no earlier round, in a later
// life neither (B-1).
//
// # Assumptions
//
// A majority of the members works eventually. And again and again, some member that works
// is suspected by nobody for as long as an instance takes. With heartbeats that is so if
// messages take less than 64 times Timeout. Records that were reported durable are there at
// the next start. The lease service behind WantLease grants an instance once, whatever
// crashes. Members are honest. Many impossible messages are refused and reported
// (Refusals), since they show that a member has another program or Config. A clever liar is
// not detected.
//
// # Where the text is mended
//
//   - ts_p begins at -1 (F8): at 0 what round 0 locked would look like what nobody has.
//   - A lease is for λ instances, lease(cn, cn+λ-1) (F9): Figure 5 counts them so.
//   - Lease_status is written where nothing was known (F10), false once it was used (F11),
//     and lost in a crash.
//   - NACK goes to any FAST coordinator that is not trusted (F12). ABORT goes to any member
//     that waits for a FAST round which this member does not coordinate, even if this member
//     has left FAST mode (F16). If one is missing, one of the two cases of section 4.2.2
//     deadlocks.
//   - Nothing blocks (F13, F20). Messages that come before phases 1 and 2 of FAST mode are
//     done, or before the owner has proposed, are kept: at most eight of each member in
//     each of Window instances. Other messages are dropped, and sent again.
//   - The first round is computed anew in each instance (F14).
//   - Config.Spread lets the first NORMAL coordinator depend on the instance (F15); as
//     printed it is always the first member, dead or not.
//
// # Beside the paper
//
//   - Crash-recovery. These are durable before they are told: a NORMAL round before its
//     ESTIMATE, an estimate before its ACK, the round before its NEWESTIMATE. The first is
//     B-1: a process could otherwise vote in a round, crash, and vote in an earlier one. A
//     member that recovers continues behind its last durable round. A FAST NEWESTIMATE
//     need not be durable: its lease is gone after a crash, and nobody is granted it
//     again. A decision is logged without being forced, for a majority has adopted it.
//   - Lossy links. A member that waits for an answer repeats its message after
//     Config.Retry, and again after longer and longer times. A member that has decided
//     answers with the decision. That is a reliable broadcast which relays a decision only
//     to members that lack it.
//   - A member that has acknowledged waits for DECIDE, or for an ABORT, or suspects. In
//     the paper it sends ESTIMATE of the next round at once: n messages, and with B-1 a
//     forced write, in each instance for nothing.
//   - A message of a later NORMAL round takes a member there. In the paper it passes
//     through all the rounds between.
//   - A NORMAL coordinator that lacks estimates calls: at once if it is one because another
//     is suspected, else at first after a sixteenth of Retry. A member that does not know
//     the instance sends none.
//   - DECIDE goes to all without the value, which they have from NEWESTIMATE; FAST ESTIMATEs
//     go without it because nobody reads them, and not at all if NEWESTIMATE is there.
//   - A refusal may say how far it reaches (Leased.Until), so that a member which follows a
//     dead leader does not ask for each of its instances. A member that is no longer
//     trusted gives back the unused part of its leases.
//
// λ adapts as section 5 says. At first it is half of the greatest, or all of it
// (Optimistic). It is halved after a refusal, and grows by a quarter after each lease.
// A member that begins to lead has half of the greatest again.
//
// # Failure detector
//
// ◇S is a heartbeat and a timeout for each member, which doubles when it was wrong and is
// halved after long quiet. It was not wrong about a member whose process the owner saw end, nor
// about one that was silent for longer than any message takes. Task Transform is
// Chu's Slander: members count suspicions of each member, heartbeats carry the counts,
// and the member with the least is trusted. The counts only grow (F18), by one in a
// period, so whom a partition has slandered does not lead again for about as long.
//
// # Left out
//
// Changing the members: see package abcast, whose epochs have a Machine each. Members that
// lie. Choosing a coordinator by its distance.
package fastct
