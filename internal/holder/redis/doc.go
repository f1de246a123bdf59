// Package redis opens, makes and inspects the sets of Redis servers on which package engine/redis
// keeps leases.
//
// Package internal/holder/storage has the leases. Package internal/host/register/redis has the demands
// on a server, and the answer to a server that may have lost writes that it acknowledged.
//
// [Open] never makes a store: a server that restarted empty looks like a new server, and its leases may
// still be held. [Restore] has such a server count again.
package redis
