package server

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// Limits bound the memory, the work and the patience that a member spends on its clients. A zero
// field means its default. Start refuses a value with which a member could not serve.
type Limits struct {
	// MaxLeases is the number of leases that may exist. Each takes about 250 bytes of memory at
	// each member. A grant beyond it is refused with "too many requests". Default 5,000,000.
	MaxLeases int64
	// MaxPendingBytes bounds the requests at this member that wait to be replicated; without a
	// bound they would fill the memory while no leader is there. A request beyond it is refused
	// with "too many requests". At least twice MaxRequestBytes. Default 64 MiB.
	MaxPendingBytes int64
	// RequestTimeout is how long a request waits for its outcome. It is at least one
	// ElectionTimeout, for a change of leader should not fail requests, and one hour at most.
	// Default 5 s and two ElectionTimeouts.
	RequestTimeout time.Duration
	// MaxTailBytes bounds the replicated log in memory. Half of it makes a snapshot, so a greater
	// tail means fewer snapshots, a longer restart, and a longer absence after which a member needs
	// only the log. At least four times MaxRequestBytes. Default 128 MiB.
	MaxTailBytes int
	// AnswerBytes bounds the encoded answers of 64 KiB or more that clients have not read yet, on
	// all connections together. A slow reader would otherwise keep any amount of memory. An answer
	// that finds no room in 5 s is refused with "too many requests"; one that is larger than
	// AnswerBytes is sent alone. At least 64 KiB. Default 256 MiB, or a quarter of MemoryLimit if
	// that is less.
	AnswerBytes int64

	// MaxTxnOps bounds each list of operations of a transaction, because no other request is
	// applied meanwhile. Default 128.
	MaxTxnOps int
	// MaxCallsPerConnection bounds the calls and streams in flight on one connection of a client;
	// more wait at the client. Default no bound.
	MaxCallsPerConnection int
	// MaxLearners bounds the members that get the log and do not vote; the leader sends each of
	// them all writes. It has to be the same at all members. Default 1.
	MaxLearners int

	// MaxWatches bounds the watches at this member. Each takes about 260 bytes and its key, and one
	// stream has 200,000 at most. Default 2,000,000.
	MaxWatches int
	// MaxWatchBytes bounds the events that wait in memory for slow watchers, on all streams
	// together; beyond it events are read from the log later. At least 4 MiB, the share of one
	// stream. Default 256 MiB.
	MaxWatchBytes int64

	// KeepAliveMinTime is the shortest time between two pings of a client. A client that pings more
	// often loses its connection, because pings cost work and show nothing new. Default 5 s.
	KeepAliveMinTime time.Duration
	// KeepAliveInterval is the time after which an idle client is pinged, so that connections to
	// dead hosts end. At least 1 s, the least that gRPC knows. Default 2 h.
	KeepAliveInterval time.Duration
	// KeepAliveTimeout is how long a pinged client may take to answer until its connection is
	// closed. At least 100 ms. Default 20 s.
	KeepAliveTimeout time.Duration
}

// largeAnswer is the size in bytes from which on an answer counts for AnswerBytes, and
// streamEvents the bytes of events that wait for one stream.
const (
	largeAnswer  = 64 << 10
	streamEvents = 4 << 20
)

// check refuses limits with which the member c could not serve.
func (l Limits) check(c Config) error {
	request := int64(cmp.Or(c.MaxRequestBytes, 3<<19))
	for _, n := range []bound[int64]{
		{"MaxLeases", l.MaxLeases, 1, math.MaxInt64, "a grant needs a lease"},
		{"MaxPendingBytes", l.MaxPendingBytes, 2 * request, math.MaxInt64, "two of the largest requests have to fit in"},
		{"MaxTailBytes", int64(l.MaxTailBytes), 4 * request, math.MaxInt64, "four of the largest requests have to fit in"},
		{"AnswerBytes", l.AnswerBytes, largeAnswer, math.MaxInt64, "smaller answers do not count"},
		{"MaxTxnOps", int64(l.MaxTxnOps), 1, math.MaxInt64, "a transaction needs an operation"},
		{"MaxCallsPerConnection", int64(l.MaxCallsPerConnection), 1, math.MaxUint32, "gRPC counts calls in 32 bits"},
		{"MaxLearners", int64(l.MaxLearners), 1, math.MaxInt64, "a member joins as a learner"},
		{"MaxWatches", int64(l.MaxWatches), 1, math.MaxInt64, "a client needs a watch"},
		{"MaxWatchBytes", l.MaxWatchBytes, streamEvents, math.MaxInt64, "that is the share of one stream"},
	} {
		if err := n.check(); err != nil {
			return err
		}
	}
	for _, d := range []bound[time.Duration]{
		{"RequestTimeout", l.RequestTimeout, cmp.Or(c.ElectionTimeout, time.Second), time.Hour, "a request should outlast a change of leader"},
		{"KeepAliveMinTime", l.KeepAliveMinTime, 1, math.MaxInt64, "a client may ping at some time"},
		{"KeepAliveInterval", l.KeepAliveInterval, time.Second, math.MaxInt64, "gRPC pings no more often"},
		{"KeepAliveTimeout", l.KeepAliveTimeout, 100 * time.Millisecond, math.MaxInt64, "an answer takes a round trip"},
	} {
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

// bound is a limit with the least and the greatest value that it may have, and the reason.
type bound[T int64 | time.Duration] struct {
	field              string
	value, least, most T
	reason             string
}

func (b bound[T]) check() error {
	switch {
	case b.value == 0: // the default
	case b.value < b.least:
		return fmt.Errorf("server: Limits.%s is %v: set it to %v or more, or to 0 for the default: %s", b.field, b.value, b.least, b.reason)
	case b.value > b.most:
		return fmt.Errorf("server: Limits.%s is %v: set it to %v or less, or to 0 for the default: %s", b.field, b.value, b.most, b.reason)
	}
	return nil
}

// setIn gives the limits to the parts of a member that keep them.
func (l Limits) setIn(m *server.Config) {
	m.Node.MaxLeases, m.Node.MaxPendingBytes = l.MaxLeases, l.MaxPendingBytes
	m.Node.RequestTimeout = l.RequestTimeout
	m.Node.MaxTailBytes = l.MaxTailBytes
	m.Node.MaxLearners = l.MaxLearners
	m.Node.Watch.MaxWatchers, m.Node.Watch.MaxBytes = l.MaxWatches, l.MaxWatchBytes
	m.API.AnswerBytes = l.AnswerBytes
	m.API.MaxTxnOps = l.MaxTxnOps
	m.API.MaxConcurrentStreams = uint32(l.MaxCallsPerConnection)
	m.API.KeepAliveMinTime = l.KeepAliveMinTime
	m.API.KeepAliveInterval = l.KeepAliveInterval
	m.API.KeepAliveTimeout = l.KeepAliveTimeout
}
