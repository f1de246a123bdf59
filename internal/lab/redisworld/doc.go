// Package redisworld plays worlds of processes that keep leases on Redis servers. The internal/holder/redis,
// internal/holder/storage, internal/host/register/redis and go-redis that ship run over
// internal/lab/world/network, each process with a clock of its own that goes at its own rate.
//
// # The server
//
// The scripts of internal/host/register/redis are the protocol, so an interpreter of Lua has to run
// them: miniredis, which go.mod has for tests and which serves connections of any kind. Two things it
// is not asked for. It answers INFO and CONFIG as the world sets them, and forgets by the world's plan.
// A server writes each change of a script to a log, as Redis does, and a new process replays as much of
// the log as was synced. A server of our own would have to interpret the same Lua and could only agree
// with what we believe of Redis; package compat has real ones.
//
// A server keeps all (appendfsync always), all but a second (everysec), all but ten (a dump), or
// nothing. Its process ends, its power fails, a replica takes over that lacks the last moments,
// an operator empties it, and INFO may not be permitted, on servers that keep all and have no
// replicas. Its memory is full, its disk fails, it loads. An operator restores servers that have
// lost something from the others, as documented. No server loses anything before the one before
// it counts again: that is the fault that a set promises to survive.
//
// # A world
//
// There are one server or three, and two to four processes with up to three claims at a time, exclusive
// and shared. The processes look on, close and open again, and are killed, also at any call of the
// network. Servers and processes stand still between any two calls of the network, are slow, are cut
// off in one direction or both, lose connections with and without hearing of it. Each world draws few
// of these, and those often.
//
// # Judgement
//
// Package internal/lab/world/holders has the judge of holders and of tokens. When faults have
// ended, every store can be opened. Every name can be had within the time that it takes to wait
// for leftovers, and at once after a release if there is one server. Of three, one may have
// missed that an earlier holder left, which costs the next a wait: see package
// internal/host/register/redis.
package redisworld
