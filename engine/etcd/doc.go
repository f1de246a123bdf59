// Package etcd keeps leases in a server that speaks etcd's v3 API: a Tenure server or an etcd.
//
//	leaser, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "nightly-report"})
//
// A claim on NAME excludes etcd's own locks: `etcdctl lock NAME`, clientv3's concurrency.Mutex and
// Election with the prefix NAME, and the Lock service of the server. A plain etcd client knows
// nothing but exclusion, so its key counts as an exclusive claim. Do not lock both a name and a
// name below it, such as NAME/SUB, where plain etcd clients take part.
//
// The server grants whole seconds, and no less than its minimum: a stock etcd's is 2 s by default.
// A TTL of less than three round trips is refused with tenure.ErrTTLTooShort.
//
// The server has to keep a lease for its TTL after it received a renewal that it answers. Tenure's
// server does, also across changes of leader. A stock etcd renews on the word of the member that
// believes itself to be the leader. Such a member may have been suspended, and then it confirms a
// renewal of which its successor knows nothing. Check fencing tokens at the resource.
//
// At a server with users the Config needs one, and its password. A login that has ended is made anew while
// leases are held. A lease is lost at its deadline if its user loses the right to write the keys that begin with its
// name, and its error says so.
//
// A token is a revision of the whole store. A cluster that is restored from a backup begins at a
// smaller revision, and resources that remember tokens refuse all holders until it has caught up.
// `tenure snapshot restore` raises the revision by itself, etcdutl with --bump-revision: give it more
// than the number of writes since the backup.
package etcd
