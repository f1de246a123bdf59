// Package server runs members of etcd or Tenure as processes, for tests and
// benchmarks that treat both alike.
//
//	c, err := server.Start(ctx, server.Config{Kind: server.Tenure, Members: 3, Dir: t.TempDir()})
//	defer c.Stop()
//	cli, err := c.Client()
//	c.Members[0].Kill()           // kill -9
//	c.Members[0].Start(ctx)       // again, over the same directory
//
// Both kinds take etcd's flags and log a line with "ready to serve client
// requests" when a member can answer; Start waits for that line. Binaries are
// built on first use into the user's cache directory. Members die with the
// process that started them, where the system can do that (Linux).
//
// The members of a cluster can talk to each other through links (package peertest),
// which a test holds in one direction or both, or slows down.
//
// CPU and memory figures are read from /proc, so they are zero elsewhere.
package server
