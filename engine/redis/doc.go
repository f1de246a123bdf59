// Package redis keeps leases on one Redis server, or on several independent servers of which a
// minority may fail. It is what Redlock is meant to be, with fencing tokens, and stays sound when
// servers restart or answer late.
//
//	cfg := redis.Config{Addrs: []string{"a:6379", "b:6379", "c:6379"}}
//	err := redis.Init(ctx, cfg, redis.Spec{}) // once
//	leaser, err := redis.Open(ctx, cfg)
//
// Open never makes a store by itself. A server that restarted empty looks like a new server, and its
// leases may still be held. [Init] makes the stores, and so does the command `tenure lease init`.
//
// A server that has lost writes is left out from then on: one that was emptied, or that restarted
// with older data, or was replaced. [Restore] has it count again, and so does the command
// `tenure lease restore`. Meanwhile the set goes on without it.
package redis
