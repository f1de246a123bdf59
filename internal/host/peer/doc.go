// Package peer carries messages between the members of a cluster: batched,
// checked and, with TLS, authenticated streams over TCP. It knows nothing of
// raft; a message is bytes.
//
//	t, err := peer.New(peer.Config{
//		Self: 1, ClusterID: 7, Listener: ln,
//		Peers:   map[machine.NodeID]string{2: "10.0.0.2:2380", 3: "10.0.0.3:2380"},
//		Deliver: func(from machine.NodeID, msgs [][]byte) { … },
//	})
//	…
//	t.Send(2, msg)                        // never blocks
//	err = t.SendStream(ctx, 3, header, r) // a snapshot, over its own connection
//	t.SetPeers(now, removed)              // members come and go
//	t.Close()
//
// # Streams
//
// Each side dials for what it sends, so a pair of members has two connections. Messages of
// [Transport.Send] wait in a queue, bounded in bytes. Its writer puts all of them into one
// frame and one write, so a lone message leaves at once and batches grow with the load.
// Messages of a pair arrive in order, each at most once. They are lost when the connection
// is, when the queue is full and while there is no connection; protocols above have to send
// again, and [Config] Unreachable tells them. The message of [Config] Greeting comes first
// on each connection.
//
// A receiver that blocks in Deliver stops reading from that peer only. TCP then
// stops the sender, whose queue fills up; after a few seconds without progress it
// gives the connection up and frees the queue.
//
// A connection is lost when a frame is bad, when nothing was heard for 5 s
// (idle senders ping every 500 ms, receivers answer) or when a write takes longer
// than that. Dialing starts again after a random time of up to 10 ms, doubling up
// to 1 s, and at once when the other side dials us.
//
// # Death and silence
//
// The kernel closes the connections of a process that dies, whatever killed it,
// so both connections of the pair end, at once. That is [Config] Down: certain
// enough to look for a new leader without waiting for an election timeout. A
// stopped process, a dead host or a cut cable only fall silent; that is never
// Down. The reverse does not hold: a Down says that the process at the other end
// let go of us, and it may have a new connection a moment later.
//
// # The wire
//
// All integers are little endian. The dialer starts with
//
//	magic "TENUREPR" | version u16 | kind u8 | 0 | cluster u64 | from u64 | to u64 |
//	instance u64 | ticket, 16 bytes | CRC32C u32
//
// where kind is 1 for messages, 2 for a bulk stream, 3 for a question ([Ask]), and 4 for a
// confirmation (see Trust). A question comes from nobody, to nobody, of no cluster, and is
// a frame each way. Each process draws its instance at random, and a ticket for each
// connection. The answer is
//
//	magic "TENUREPR" | version u16 | status u8 | 0 | reason length u32 | CRC32C u32 | reason
//
// with status 0 for welcome. Then frames follow:
//
//	version u8 | type u8 | 0 0 | length u32 | CRC32C u32 | body
//
// A batch's body is messages, each after its length as a uvarint. The first ten
// bytes of the greeting never change, so that versions can refuse each other.
//
// # Trust
//
// A member is the process that answers at its address in [Config] Peers. Nothing that a
// greeting says is believed before the receiver has dialed that address and has heard from
// the process there that the connection is its own (confirm.go). The question names the
// connection's ticket, which the dialer tells nobody but the member that it dials. So a
// stranger that reaches the port, and knows all ids and addresses, is told that it is not
// that member, and none of its frames is read. Messages and streams come from members only.
//
// This stops a stranger that can neither read or change members' traffic nor take
// over a member's address. An address is taken over by ARP, DNS or routes, or because
// it was given up while it is still in Peers. Those take mutual TLS: a [Config] TLS
// that demands client certificates. The confirmation is made then, too, and checks
// the certificate's name against the address, so that a member's certificate does not
// do for another member.
//
// The handshake also refuses another cluster, an unknown member, a message for another
// member, and another version of the protocol. It refuses a second process with the id of a
// living one, whose connection shows life while the second waits. A peer that nobody can
// dial at its address is refused ([ErrUnconfirmed]), for its messages could not be
// answered.
//
// A question comes from anybody. Its answer must prove nothing, and the question is no more
// than a hint.
//
// # Limits for strangers
//
// Connections in their handshake or with a question, guests, are 64 and 4 for each peer,
// for 5 s each. Beyond that the oldest of the source (an IPv4 address, an IPv6 network of
// 64 bits) that has most of them is put out. A guest costs a goroutine, a question of
// 16 KiB and an answer of 1 MiB at most; four questions are answered at a time. Each
// greeting that names a peer makes one connection to that peer's address. The log has one
// line a second about all of them.
//
// # Left out
//
// Compression, and delivery guarantees.
package peer
