// Package etcd keeps leases in any server that speaks etcd's v3 API: a Tenure
// server or an etcd.
//
//	leaser, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "nightly-report"})
//
// # How a name is held
//
// The layout is that of etcd's own locks, so that a claim on NAME and `etcdctl
// lock NAME`, clientv3's concurrency.Mutex and Election with the prefix NAME, and the
// server-side Lock service exclude each other:
//
//	key    NAME/694d8f2a3c5b7e01      the server's lease id in hex; attached to that lease
//	value  {"tenure":1,"holder":"web-3:4711","slots":1}
//	order  by create revision; the key's create revision is the fencing token
//
// The keys of a name are a queue. Let a key allow as many holders as its claim
// has slots: 1 for an exclusive claim and for every key that is not ours, n for
// a semaphore, any number for a shared one. The claim at position i, counted
// from 1, is admitted once no key up to and including its own allows fewer
// than i holders. So holders are always a prefix of the queue, each is content
// with the number of them, and nobody overtakes. For an exclusive claim this is
// etcd's own rule (be the oldest key), so whether the others are ours or plain
// mutexes makes no difference. Any two of our claims of whatever kind obey one
// rule; plain etcd clients know nothing but exclusion, and get it.
//
// Keys below NAME/ that are not of this form, such as those of a name NAME/SUB,
// are passed over. Plain etcd clients do not pass them over: where they take
// part, do not lock both a name and one below it.
//
// A claim is one lease on the server: grant it, put the key and look at the queue
// in one transaction (two round trips when the name is free), else watch
// for the key ahead to vanish, and then look again in a transaction that is
// guarded by our own key's create revision, so that nobody is admitted whose
// lease has ended meanwhile. A claim whose lease ends while it waits queues up
// anew, with a greater token. Release revokes the lease: it deletes the key that
// is attached to it, ours, in one round trip, and cannot touch another's. When a release,
// or a waiter who gives up, gets no answer from the server, the revoke is tried on in the
// background for as long as the lease was granted, so that the key stands in the
// way no longer than the trouble lasts.
//
// # Time
//
// The server grants whole seconds and no less than its minimum (a stock etcd: 2 s at
// default settings). The holder's deadline counts from when the grant or renewal
// was sent, by package clock, and is earlier than the server's by one percent:
// the clocks of the holder and of the server's leader may tick at rates that
// differ by that much. (NTP slews by at most 0.05 %; chrony may be configured
// for 8 %, where leases must not be relied on while it does so.)
//
// The lease is renewed a third of its TTL after the last success was sent. An
// attempt that has no answer is not given up but joined by another, each ninth
// of the TTL, on whatever member of the cluster the connection offers next,
// until the deadline and never after. That is at most nine requests per TTL in
// bad times and three in good ones. The loop is our own: clientv3's
// KeepAlive channel does not say when a renewal was sent.
//
// A TTL of less than three round trips is refused with ErrTTLTooShort.
//
// LockDelay is a longer lease: the server is asked for TTL + LockDelay, and the
// holder believes in TTL only. So the server itself keeps everyone out for the
// delay, etcdctl included, whichever way the holder went; and a revoke ends both. So
// a lease that was lost with a lock delay is not revoked by a release that comes after.
// Renewals and the one percent go by the holder's part alone. A claim that ends while
// it waits, its process killed, keeps its place in the queue for TTL + LockDelay too.
// A longer TTL granted than asked for goes to the holder, not to the delay.
//
// # Assumptions, and what is left out
//
// The server keeps a lease at least for its TTL after it received a renewal that
// it answers. Tenure's does, across changes of leader and paused leaders. A stock
// etcd renews on the word of the member that believes to be leader: one that was
// suspended and wakes may confirm a renewal that its successor knows nothing
// about. Check tokens at the resource.
//
// Tokens are revisions of the whole store, and grow as long as its data is kept. A
// cluster that is made anew, or from a backup, begins at a smaller revision: resources
// that remember tokens refuse all holders until it has caught up. Restore with
// etcdutl's --bump-revision, larger than what was written since the backup.
//
// A holder notices by a watch that its key was deleted by somebody else (`etcdctl
// del`), and is lost; but whoever deletes keys of others gives the name to the
// next before the holder can know.
//
// There is no fairness between a claim that lost its lease while waiting and
// others; no hand-over to a chosen successor; and no re-use of one server lease for
// many names: a lease that ends takes one name with it.
package etcd
