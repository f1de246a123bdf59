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
package rolling
