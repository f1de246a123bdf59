// Package server runs a member of the lease server in a Go program: a key-value store with
// leases, watches and transactions, replicated among the members, which etcd's clients can use.
// `tenure serve` runs the same member with etcd's flags.
//
//	s, err := server.Start(server.Config{
//		Name: "a", DataDir: dir, InitialCluster: map[string]string{"a": "http://127.0.0.1:2380"},
//		ClientListeners: []net.Listener{listener},
//	})
//	…
//	err = s.Ready(ctx)
//	…
//	s.Shutdown(ctx)
//
// The member speaks etcd's v3 gRPC API to clients, and beside it that of package readleasepb,
// which shows and changes read leases. Etcd's Maintenance.Status says which member leads, and
// how far this one is.
//
// # Read leases
//
// A member that holds a read lease answers linearizable reads without asking the others; writes
// wait for the holders (Moraru, Andersen, Kaminsky: Paxos Quorum Leases, SoCC 2014).
// Config.ReadLease is the policy that a new cluster begins with, and readleasepb changes it
// later:
//
//   - off: nobody holds any. Every linearizable read asks the leader.
//   - leader: the leader does.
//   - all: every member that is read from does.
//   - leader/key and all/key: the same, but a write waits only for the holders of its keys. A
//     reader of one key learns nothing about the order of writes to other keys, so that etcd's
//     order of revisions over all keys is given up.
//   - static/key, quorum/key and cost/key: as before, and each key is held by some members: as
//     told, by the leader and those that read it most, or by those that make it cheapest.
package server
