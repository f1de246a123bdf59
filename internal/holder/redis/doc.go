// Package redis keeps leases on one Redis server, or on several independent ones of which a
// minority may fail: what Redlock is meant to be, with tokens, and sound when servers
// restart or answer late.
//
//	header, err := redis.Init(ctx, cfg, storage.Spec{})       // once
//	leaser, err := redis.Open(ctx, redis.Config{Addrs: []string{"a:6379", "b:6379", "c:6379"}})
//
// Package internal/holder/storage says how leases work, internal/host/register/redis what it asks of servers and
// what it does when one may have lost what it acknowledged.
//
// Open never makes stores by itself: a server that restarted empty looks like a new one, and
// its leases may still be held. [Restore] has it count again.
package redis
