// Package flease is a peer with its leases: package protocol/flease with sockets, disks and
// goroutines around it. The public package engine/flease has its promises, and is a shell over
// this one.
//
//	p, err := flease.Start(ctx, flease.Config{Self: "a:7000", Membership: flease.Fixed(members)})
//	leaser := p.Leaser()                       // for claims of this process
//	err = p.Serve(listener)                    // for claims of other processes of this machine
//	client, err := flease.Dial(ctx, path)      // in one of these processes
//
// This package has in addition what worlds, measurements and `tenure peer` need: other clocks,
// another network and another disk (Config), a peer's state ([Status]), and the punctuality of
// its renewals ([Punctuality]).
//
// # Files
//
// A [Peer] steps the protocol and passes its reports on (peer.go, wire.go, outcome.go). A claim
// embeds holder.Lease (lease.go, acquire.go). Peers compare their terms (terms.go) and follow the
// list of members (members.go, change.go). A peer that is closed leaves its promises in a file
// (snapshot.go). Peers keep records (kept.go, shelf.go, savedshelf.go), ask each other for them (recordround.go,
// recollect.go), and set and read them (recorder.go). A session serves a client at the peer (serve.go, session.go); a [Client] has the
// same in its own process (client.go, clientconn.go, clientlease.go, clientrecord.go). Both speak lines of
// socket.go.
//
// # The socket
//
// Both sides send JSON, one value a line. A request has at most 16 KiB. An event has at most
// 16 MiB, because a state may have many holders. The client begins:
//
//	{"op":"hello","version":2}
//	{"event":"welcome","version":2,"at":123456789,"t_max_ms":30000}
//	{"op":"acquire","id":1,"at":123999999,"name":"x","holder":"web-3","ttl_ms":15000,"try":true}
//	{"event":"acquired","id":1,"token":"17","ttl_ms":15000,"deadline":138000000}
//	{"op":"alive","at":125000000,"ids":[1]}
//	{"event":"renewed","id":1,"deadline":140000000}
//	{"op":"release","id":1}
//	{"event":"released","id":1}
//
// Times are readings of CLOCK_BOOTTIME in nanoseconds, which both sides read. A client holds its
// lease until the deadline in the last event. That deadline is at most a TTL after the client last
// named the lease in an alive (acquire names its own). The client has to name each lease more
// often than once in a TTL.
//
// The other requests are:
//
//   - cancel, which ends a wait; the answer is "refused";
//   - observe;
//   - await, an observe that is answered when the name has other holders than those with "tokens";
//     cancel ends it;
//   - list, of the names that begin with "name"; the answers are events "names", of which all but
//     the last have "more";
//   - record, which is answered with the "record" of the name, or "none"; and set record, with the
//     "record" of the held claim in "ids", which is answered with "recorded";
//   - status.
//
// The end of a connection is no release, because the client's work may still run. So its leases
// run out. The first line has to come within five seconds. A connection has room for 4,096 claims
// and as many requests that only look. More are answered with the reason "busy".
//
// # How a client's lost lease becomes free
//
// The peer frees it without a message. Each claim of a client has a liveness of its own. An alive
// names the claims that a caller waits for and the leases that are held at that moment. The client
// reads the clock first and looks at its leases afterwards. The peer extends the named claims and
// no others.
//
// Let a client lose a lease at L: its deadline has passed, or the client was stopped, or no caller
// waits for the answer any more. The client last named the lease at some A <= L, whatever else it
// does over the same connection. No deadline that it was told is later than A + TTL, and it
// believes in no later one. So the peer ends the claim at L + TTL at the latest, and releases the
// lease after the lock delay. Others get it at L + TTL + lock delay if a majority of the cell
// works. No message is needed for that, so a message that was lost, late or never sent cannot
// prolong an orphan. An early version had one liveness for a connection and a message for each
// loss: a lease whose loss was not reported lived as long as its client was alive at all.
//
// In the other direction, the client's belief ends with the deadline that it was told, and the
// peer releases nothing before that. So exclusion needs no message either.
//
// # Records
//
// A record is kept beside the lease of a name, in the memory of all members (tenure.Recorder). The
// protocol's register would not do: it forgets on purpose, after W, and a record may be wanted a
// year later.
//
// Records are ordered by the token of their tenure and by their number within it, and a peer keeps the
// newest. So a holder that was stopped cannot write over a later one's, and writers need no rounds to
// find an order. Numbers are drawn in the order of the calls, so that a call that was given up comes before the
// next. Records travel by questions (peer.Ask). The writer only says that it has a newer one:
// the others dial it and fetch it, so that a stranger's word makes no record. An answer counts if it
// is that of the member that was asked, under the same list of the same cluster.
//
// Peers that start have forgotten, unless they restore a State. Let n be the number of members and
// m a majority. A peer that starts is incomplete: it keeps what it is given, and counts neither for a read nor
// for an acknowledgment. It asks all others for all records until
//
//	(a) n-m+1 that are complete have shown theirs; or
//	(b) m peers, itself included, were incomplete at one moment, each in its present life. No question
//	    can bring back what only they had, and the cluster may be a new one.
//
// The first that sees the moment of (b) is complete then, and the others no longer see it. So it tells them which
// peers they were, in which lives. It has given them its records with the same answer.
//
// A record is acknowledged when m complete members have it at one moment: in two rounds, of which the second
// begins when the first has been answered, in one life each. To count acknowledgments of different
// moments would not do. Let 1 have it, restart, and hear from 2 and 3, which have nothing yet. Then 2
// takes it. The writer has heard of two, and only one has it.
//
// Claim: a record that was acknowledged is read, or a later one, as long as no majority is incomplete
// at one moment. At the moment of the acknowledgment at most n-m members are without it. Let p be the
// first of the others that becomes complete without it, after a restart. By (a), n-m+1 complete
// members showed nothing of it after that moment. None of these has ever had it, or p were not
// the first; but they are at most n-m. By (b), a majority was incomplete at one moment. If that was before the
// acknowledgment, p is in the same life since, and has not had the record. So there is no p,
// and of m complete members that answer a read at least one has it.
//
// A read passes on what it shows before it returns it, in the same way, so that the next shows it, too.
//
// # Records and clocks
//
// Tokens are times. If clocks are set back and the promises are forgotten, a tenure may have a smaller token than
// a record of before. Then the record would stay, and each SetRecord would be in vain. So a holder that meets a
// record with a greater token has a majority keep that, makes sure that it holds its lease still, and puts its
// own record over it: ordered by the greater token first, and by its own then. kept.over has the argument why a
// holder that is stopped in between replaces no later record. It supposes that the later tenure's token is
// greater. So two things may go wrong around the very moment at which clocks are set back: a call that was
// under way then, and whose holder is stopped until the next has set a record, may come behind that; and
// a record that was not acknowledged before may come up later.
//
// # Records and lists
//
// A change replaces, adds or removes one member. Hosts read the new list at different times, and answers under
// another list do not count. Let n and m be of the old list, and n' and m' of the new one.
//
// Claim: once a record is acknowledged or read under the new list, no majority goes by the old one. The m' that
// acknowledge are complete. If no newcomer is among them, m' have left the old list: at most m-1 are left. If the
// newcomer is, then by (a) n'-m'+1 others were complete under the new list; they, too, have left the old one, and at
// most m-1 are left. That is why an incomplete peer acknowledges nothing. (b) could make a newcomer and a peer
// that has crashed complete, with all others under the old list. So for (b) n-m+1 members of the old list have to go
// by the new one, as far as the peer knows the old one; a list without "was" says that all do. Nor does anybody
// begin anew under a list if it has heard of a newer one.
//
// Claim: a record that was acknowledged under the old list is read under the new one, unless the change removes one of an
// odd number. If it replaces or adds one, at least m-1 of those that stay have the record, and n-m are without it. n'-m'+1 is
// more than n-m, so that the newcomer gets the record by (a), and with it m' have it again. That is why the
// newcomer has to be complete before the next change. A newcomer that became complete before the
// acknowledgment has heard n'-m'+1 that had left the old list, and so fewer than m were left to acknowledge. If a change
// removes one that had it, m' complete members still show the record; but of five peers two may then be left
// with it, and two without, and (a) for four asks two. So a crash may cost the record then, unless it was read before: a
// read has m' keep it.
//
// The next change comes when the view is active at all members. A peer that votes in a view
// goes by no earlier list, whether its host has read the new one or not. So nobody of the new list goes by the
// old one then, and those that have left are fewer than m. A peer whose host passes a list, and reads the one behind it,
// is incomplete: others may have acknowledged records under the list between. Nor does it begin anew by itself, unless the list has
// "was": it does not know those of the list before, and a majority of them may go by that. Newcomers know them.
//
// # Records and states
//
// A State carries the records over a planned end, and says which life has left it, under which list. A peer is
// complete with it if the list is the same. Its records are kept in any case, with other terms, too: they are not about
// terms. Each peer remembers in which lives it has heard of the others. A peer that has restored a
// State is complete when a peer that has not forgotten has answered, or all have, and none has heard of a life between that of
// the State and the present one. Until then it counts neither as complete nor, for (b), as incomplete. So a State from
// a backup is noticed, if a peer that can be reached has heard of a life since. It is not if all peers restore old ones,
// if all others have forgotten, or if there is one peer only.
//
// A peer that was away may know a life before that of the State, and not the one of the State. So a peer hears from the others in
// which lives it was before, and a State has these. A life that neither says to be earlier counts as one between.
//
// A State of a peer that has begun anew says with which others, in which lives. They may not have heard of it, and the
// moment was, whether the peer has restarted since or not.
//
// # Room
//
// A peer takes no new name when it has those of recordsMax. The last places may have different names at different peers, and some of
// the records may be acknowledged. So a peer has as much room again for what it hears of others when it starts, reads
// and restores: for the names of one full shelf beside its own.
package flease
