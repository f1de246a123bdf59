// Package peertest has the ways between members in the hands of a test: each may be
// held, in one direction or both, or take its time.
//
//	links := peertest.New()
//	at, err := links.Proxy(0, "127.0.0.1:0", listensAt) // in place of the first member
//	…                                                   // and of the others, and start them
//	links.Know(ids)                                     // the members, by number
//	links.Delay(0, 1, 60*time.Millisecond)
//	links.Hold(1, 2)
//	links.Stop()
//
// Members talk through proxies, so nothing is lost or out of order, and no bandwidth is
// limited. Bytes that arrive at a proxy leave it when their time has come, counted from
// their arrival. They do not wait for earlier bytes to arrive at the other end.
//
// A proxy of [Links.Proxy] learns the dialer from the greeting of package peer. A program
// that is not ours but, as etcd, takes its proxy from the environment can be given one of
// its own, [Links.Socks], which knows who dials, and is asked for whom.
//
// # What is different from a network
//
// A proxy takes a connection before the other side has; the first bytes wait for their way.
// Of the end of a process the others hear by its connections, late, even if it would be
// by nothing at all in a network that is cut.
package peertest
