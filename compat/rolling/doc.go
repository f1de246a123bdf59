// Package rolling restarts three members with mutual TLS and users in turn, kills one, and replaces one by an
// empty one, while clients write, read, watch, and hold leases and locks as users that have to log in.
//
// The judges want that
//   - each acknowledged write is there in the end, at each member, at its revision and with its value;
//   - each watch has seen each revision once, in order, and none is missing;
//   - each read shows all writes of its client that were acknowledged before;
//   - leases and locks that are kept alive are held all the time;
//   - no call is refused for a reason of users, although tokens end, and users change, in the course of it.
//
// A write may fail while a member goes; it may have happened then, and the client goes on with another key.
//
// Tokens are simple ones or signed ones, which end after some seconds. The behaviour of a stock etcd under
// the same is logged and fails nothing.
//
// With simple tokens, watches of a stock etcd (3.7.3) end for good in some runs, with "leader changed" or "invalid auth token". The fault of the first is
// between its server and its client, and not the judge's. A client logs in anew for each stream of
// watches. Etcd's Authenticate makes a linearizable read first, which fails with that error when the leader changes.
// clientv3 returns it from opening the stream as an error without a status, takes it for one that does not pass, and
// gives the watch up (getToken in its retry_interceptor.go, isHaltErr in its client.go). Tenure's Authenticate waits for the next
// leader instead.
package rolling
