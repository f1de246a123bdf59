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
// Each side dials for what it sends, so a pair of members has two connections.
// What [Transport.Send] takes waits in a queue, bounded in bytes, whose writer
// puts all that is there into one frame and one write: a lone message leaves at
// once and batches grow with the load. Messages of a pair arrive in order, each
// at most once. They are lost when the connection is, when the queue is full and
// while there is no connection; protocols above have to send again, and
// [Config] Unreachable tells them.
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
//	instance u64 | CRC32C u32
//
// where kind is 1 for messages, 2 for a bulk stream and 3 for a question ([Ask]), which
// comes from nobody, to nobody, of no cluster, and is a frame each way, and instance is drawn at
// random by each process. The answer is
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
// The handshake refuses another cluster, an unknown member, a message for someone
// else, a newer protocol, and a second process with the id of one that is alive
// (its connection is heard from while the second waits). Without TLS it keeps
// mistakes out, not attackers. With a [Config] TLS that demands client
// certificates, who has a certificate of the authority is trusted to say which
// member it is. Unknown connections can hold 64 handshakes for 5 s and no memory
// beyond that.
//
// # Left out
//
// Binding a certificate to a member, compression, and delivery guarantees.
package peer
