// Package readleasepb has the messages and the client of the gRPC service
// tenure.readlease.v1.ReadLease: which members answer linearizable reads from their own
// memory, which requests that holds up, and how to change it. readlease.proto says what each call does;
// package etcdapi serves them, on the port of etcd's services; `tenure read-lease` is
// made of them.
//
//	conn, err := grpc.NewClient("10.0.0.1:2379", …)
//	leases := readleasepb.NewReadLeaseClient(conn)
//	_, err = leases.Set(ctx, &readleasepb.SetRequest{Policy: "all"})
//	resp, err := leases.Holders(ctx, &readleasepb.HoldersRequest{Key: []byte("config")})
//	// read it at resp.Holders[0].Member.ClientUrls, the nearest that needs to ask nobody
//
// The leases are those of "Paxos Quorum Leases: Fast Reads Without Sacrificing Writes"
// (Moraru, Andersen, Kaminsky); package quorumlease explains them, and how the
// protocol differs from the paper's. What the paper's section 5.4 calls clients that
// know the assignment of leases, Holders makes possible.
//
// Assumptions. A stock etcd has no such service and answers Unimplemented, which a
// client should take for "no read leases". The answers tell of one moment: nothing is
// unsafe about one that is old, for every member answers linearizably, with or without
// a lease, but slower without.
//
// Left out. There is no stream of changes: ask again, at most once per TTL. For how
// long a voter is bound to another member is known to that voter only, so that no
// answer has it.
package readleasepb

//go:generate go -C ../../tools run ./protogen api/readleasepb/readlease.proto
