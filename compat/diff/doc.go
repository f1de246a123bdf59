// Package diff sends the same calls to two servers and compares every reply,
// every error's code and text, and every watch event.
//
// A seed gives a list of Steps: random calls, valid and invalid, to KV, Lease
// and Watch, as raw gRPC messages, so that nothing a client library would
// refuse stays untried. Both servers start empty and get the steps one after
// the other, so revisions must agree exactly. The first difference ends the run
// and is shown with the steps before it; Shrink looks for a shorter list that
// still differs.
//
// Steps are symbolic: a revision is given relative to the store's at that
// moment, a lease chosen by the server by its index (see symbol.go). A list can
// therefore lose steps and still mean something.
//
// Each server is one member or three, by the seed or by flags (-members and -stock): one against one, three against three, and
// three of Tenure against one of etcd. Of three, each step goes to a random one and the watches are at the two followers. So the
// forwarded calls, reads under a barrier and watches of followers have to look like the work of one member. The tests of users,
// operators and HTTP run on one member and on three, too.
//
// Some answers may differ and are not compared:
//   - cluster id, member id, raft term (only whether they are set);
//   - lease ids chosen by the server (renamed to their index), the order of
//     LeaseLeases and of a lease's keys (etcd's follows expiry times and a map; TestLeaseOrder wants Tenure's order);
//   - a remaining TTL, by 3 seconds;
//   - how watch events are cut into responses, and the interleaving of
//     different watches of a stream. Three limits are checked. A revision may
//     be split over fragments only, no response may be behind its events, and
//     no event may come after a progress notification that covers it;
//   - the header's revision in the answer that ends a watch on compacted
//     history: etcd sends 0, where every other answer has the store's;
//   - prev_kv on watches that did not ask for it: etcd 3.7 shares events among
//     the watches of a member, so it sometimes sends what another watch asked
//     for;
//   - how RangeStream cuts a range into chunks;
//   - at one of three members, how far it lags. A linearizable read, or AuthStatus where there are users, is made
//     there before a call that the member answers from what it has (serializable
//     reads, LeaseLeases, watches). A header that is behind is let pass where
//     the leader answers (LeaseTimeToLive, LeaseKeepAlive). Nobody removes one of the three.
//
// Never sent: a transaction that deletes from a key on and puts one of those keys
// with ignore_lease or ignore_value. It kills every member of etcd 3.7.3, for
// good; Tenure answers that the key is not found.
//
// Beside these, tests of their own draw calls of users and for users (TestAuthDifferential), calls of operators with
// probes of health (TestMaintenanceDifferential), and requests of HTTP: calls in JSON, right and wrong, and paths that do not exist
// (TestGatewayDifferential, TestGatewayStreams), and watches over websockets, several on each (TestSocketDifferential). docs/etcd.md lists all differences that are let pass, with the reasons.
// Nor is an alarm raised or disarmed by an action that does not exist: it kills every member of etcd 3.7.3, too.
//
// Not covered: expiry (time; see packages clientv3 and torture), changes of
// leader (see package torture), voters that come and go, a stream of watches by users. Nor are
// sorted ranges with ties over more than 12 keys, for etcd's order is then an
// accident of Go's sort. Nor is a watch that was cancelled by compaction, with
// the later course of its stream: in etcd it never gets a progress
// notification again.
package diff
