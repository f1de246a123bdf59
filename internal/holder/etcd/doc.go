// Package etcd keeps leases in any server that speaks etcd's v3 API: a Tenure server or an etcd.
// Package engine/etcd is its public face.
//
// # How a name is held
//
// The layout is that of etcd's own locks. So a claim on NAME and `etcdctl lock NAME`, clientv3's
// concurrency.Mutex and Election with the prefix NAME, and the Lock service of the server exclude
// each other:
//
//	key    NAME/694d8f2a3c5b7e01      the server's lease id in hex; attached to that lease
//	value  {"tenure":1,"holder":"web-3:4711","slots":1}
//	order  by create revision; the key's create revision is the fencing token
//
// The keys of a name are a queue. Let a key allow as many holders as its claim has slots: 1 for an
// exclusive claim and for every key that is not ours, n for a semaphore, any number for a shared
// claim. The claim at position i, counted from 1, is admitted once no key up to and including its own
// allows fewer than i holders. So holders are always a prefix of the queue, their number is within
// the slots of each, and nobody overtakes.
//
// For an exclusive claim this is etcd's own rule: be the oldest key. So plain mutexes among the other
// keys make no difference. All of our claims obey one rule; plain etcd clients know nothing but
// exclusion, and get it.
//
// Keys below NAME/ that are not of this form, such as those of a name NAME/SUB, are passed over. Plain
// etcd clients do not pass them over: where they take part, do not lock both a name and a name below
// it.
//
// # How a claim is made
//
// A claim is one lease on the server. It is granted, and then one transaction puts the key and looks
// at the queue: two round trips if the name is free. Else the claim watches the key ahead, and looks
// again when that vanishes. This look is guarded by the create revision of the claim's own key, so
// nobody is admitted whose lease has ended meanwhile. A claim whose lease ends while it waits queues
// up anew, with a greater token.
//
// A release revokes the lease. In one round trip this deletes the key that is attached to it, which is
// ours, and cannot touch another key. If the server does not answer a release, or a waiter that gives
// up, then the revoke is repeated in the background for as long as the lease was granted. So the key
// is in the way no longer than the trouble lasts.
//
// # Time
//
// The server grants whole seconds, and no less than its minimum (a stock etcd: 2 s by default). A TTL with
// a fraction, or below the minimum, is refused. A lock delay is rounded up. The holder's deadline counts from the moment before the grant or the renewal was sent, by package clock.
// It is earlier than the server's by one percent, for the clocks of the holder and of the server's
// leader may run at rates that differ by that much. (NTP slews by at most 0.05 %. chrony may be
// configured for 8 %, and leases must not be relied on while it does so.)
//
// The lease is renewed a third of its TTL after the last successful renewal was sent. An attempt
// without an answer goes on, and another joins it after each ninth of the TTL, until the deadline and
// never after. Each attempt goes to any member of the cluster that the connection offers. That is at
// most nine requests per TTL in bad times, and three in good times. The loop is our own, because
// clientv3's KeepAlive channel does not say when a renewal was sent.
//
// With a password, clientv3 logs in for each stream. So a stream whose renewal was answered stays for the next
// one, which opens another if that has ended. A login that has ended is made anew on the way.
//
// A TTL of less than three round trips is refused with ErrTTLTooShort.
//
// LockDelay is a longer lease: the server is asked for TTL + LockDelay, and the holder believes in TTL
// only. So the server itself keeps everybody out for the delay, etcdctl included, however the holder
// went. A revoke would end both, so a release after the loss of a lease with a lock delay revokes
// nothing. Renewals and the one percent go by the holder's part alone. A claim that is killed while it
// waits keeps its place in the queue for TTL + LockDelay, too.
//
// # Records
//
// The record of NAME is the key NAME.record. One transaction compares the create revision of the
// holder's key and puts the record, so a holder whose key is gone sets none.
//
// # Assumptions
//
// The server keeps a lease at least for its TTL after it received a renewal that it answers. Tenure's
// does, across changes of leader and paused leaders. A stock etcd renews on the word of the member
// that believes itself to be the leader. A member that was suspended and wakes may confirm a renewal
// of which its successor knows nothing. Check tokens at the resource.
//
// Tokens are revisions of the whole store, and grow as long as its data is kept. A cluster that is made
// anew, or from a backup, begins at a smaller revision, and resources that remember tokens refuse all
// holders until it has caught up. `tenure snapshot restore` raises the revision by itself, etcdutl with
// --bump-revision: give it more than the number of writes since the backup.
//
// A holder notices by a watch that its key was deleted (`etcdctl del`), and is lost. But such a deletion
// gives the name to the next claim before the holder can know.
//
// # Left out
//
// A claim that lost its lease while it waited gets no precedence. There is no hand-over to a chosen
// successor. Each name has a lease of its own on the server, so a lease that ends takes one name with
// it.
package etcd
