// Package network is TCP between the processes of a [world.World]: listeners, connections
// and dialing in memory, with the waits that testing/synctest knows.
//
//	n := network.New(w, time.Millisecond, 5*time.Millisecond)
//	l, err := n.Listen(p, 2380)                  // at "m0:2380", for p of name m0
//	c, err := n.Dialer(q)(ctx, "m0:2380")
//	n.Cut("m0", "m1", time.Minute)               // in one direction
//	n.Reset("m0", "")                            // all that m0 has
//	n.HalfOpen("m0")                             // it forgets its own, and nobody is told
//	n.Exit(p)                                    // p was killed: others read EOF or a reset
//	n.PowerOff(p); …; n.PowerOn("m0")            // its host is gone: others hear nothing
//
// Bytes of a connection arrive in order, each way after a delay of its own. A cut holds them
// back, as TCP sends lost data again; nothing is lost within a connection. A writer waits while
// 256 KiB are under way or unread. Dialing takes a round trip. Without a listener it is
// refused, and where nothing gets through it goes on until its context ends. Operations of a
// process go by its [world.Process] first (seam network; operations dial, accept, read, write),
// so it can be delayed, fail, or stand still there. The kernel of a process that stands still
// goes on accepting and receiving.
//
// Left out: reordering and loss (TCP hides them), TCP's own timeouts (peers and gRPC have
// theirs), half-closing, and the cost of a byte.
package network
