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
// (snapshot.go). Peers keep records (shelf.go, recorder.go). A session serves a client at the peer (serve.go, session.go); a [Client] has the
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
// find an order. Records travel by questions (peer.Ask). The writer only says that it has a newer one:
// the others dial it and fetch it, so that a stranger's word makes no record.
//
// Peers that start have forgotten, unless they restore a State. Let n be the number of members and
// m a majority. A peer that starts is incomplete: it keeps what it is given, and counts for no read. It
// asks all others for all records until
//
//	(a) n-m+1 that are complete have shown theirs; or
//	(b) m peers, itself included, are incomplete at one moment. No question can bring back then
//	    what only they had, and the cluster may be a new one.
//
// A record is acknowledged when m members have it at one moment: in two rounds, of which the second
// begins when the first has been answered, in one life each. To count acknowledgments of different
// moments would not do. Let 1 have it, restart, and hear from 2 and 3, which have nothing yet. Then 2
// takes it. The writer has heard of two, and only one has it.
//
// Claim: a record that was acknowledged is read, or a later one, as long as no majority is incomplete
// at one moment. At the moment of the acknowledgment at most n-m members are without it. Let p be the
// first of the others that becomes complete without it, after a restart. By (a), n-m+1 complete
// members showed nothing of it after that moment. None of these has ever had it, or p were not
// the first; but they are at most n-m. By (b), a majority was incomplete at one moment. So there is no p,
// and of m complete members that answer a read at least one has it.
//
// A read passes on what it shows before it returns it, in the same way, so that the next shows it, too.
//
// A change of the list does no harm if it replaces or adds one member, and the newcomer is complete before
// the next change. Answers under another list do not count. Of those that stay, at least m-1 have the
// record and n-m are without it, so that the newcomer gets it by (a). Removals wear the claim out: each
// may take a peer that has the record.
//
// Known faults: this supposes that all members read a list at one moment. A record that a newcomer
// acknowledges, while others go by the earlier list, is not read there. docs/flease.md lists the others.
package flease
