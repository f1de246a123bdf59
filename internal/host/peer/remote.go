package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// remote is what a member knows of one other.
type remote struct {
	t    *Transport
	id   machine.NodeID
	addr string

	ctx    context.Context // ends with the transport, or when it is no peer any more
	cancel context.CancelFunc

	// Streams end with the process that they go to: a host that lost its power never answers.
	life context.Context
	dies context.CancelCauseFunc

	kick    chan struct{} // dial at once: the other side has just dialed us
	ready   chan struct{} // there is something in the queue
	bulkOut chan struct{} // holds the token of the one outgoing bulk stream
	bulkIn  chan struct{} // and of the incoming one

	mu        sync.Mutex
	queue     [][]byte
	queued    int // bytes in queue and being written
	connected bool
	losing    bool // messages are being lost, and Unreachable was told
	in        *incoming
	instance  uint64 // of the process that in comes, or last came, from
	died      bool   // in ended as if that process had died
	down      bool   // and Down was told
	stats     Stats
}

func newRemote(t *Transport, id machine.NodeID, addr string) *remote {
	ctx, cancel := context.WithCancel(t.ctx)
	life, dies := context.WithCancelCause(ctx)
	return &remote{
		life: life, dies: dies,
		t: t, id: id, addr: addr, ctx: ctx, cancel: cancel,
		kick:    make(chan struct{}, 1),
		ready:   make(chan struct{}, 1),
		bulkOut: make(chan struct{}, 1),
		bulkIn:  make(chan struct{}, 1),
	}
}

// send queues a message if there is a connection and room.
func (r *remote) send(msg []byte) bool {
	cfg := &r.t.cfg
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(msg)+binary.MaxVarintLen32 > cfg.FrameBytesMax {
		r.t.refusals.Warn(cfg.Logger, "peer: a message is larger than a frame may be and was dropped", "bytes", len(msg), "limit", cfg.FrameBytesMax)
		r.lose(1)
		return false
	}
	if !r.connected || r.queued+len(msg) > cfg.QueueBytes {
		r.lose(1)
		return false
	}
	r.queue = append(r.queue, msg)
	r.queued += len(msg)
	nudge(r.ready)
	return true
}

// lose counts lost messages and tells of the first. r.mu is held.
func (r *remote) lose(n int) {
	r.stats.MessagesDropped += uint64(n)
	if !r.losing {
		r.losing = true
		if f := r.t.cfg.Unreachable; f != nil {
			r.t.events.add(func() { f(r.id) })
		}
	}
}

// take empties the queue into spare, whose memory it uses again for the queue.
func (r *remote) take(spare [][]byte) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	msgs := r.queue
	r.queue = spare[:0]
	return msgs
}

// wrote accounts for written messages.
func (r *remote) wrote(msgs [][]byte, frameBytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range msgs {
		r.queued -= len(m)
	}
	if r.queued <= r.t.cfg.QueueBytes/2 {
		r.losing = false
	}
	r.stats.MessagesSent += uint64(len(msgs))
	r.stats.FramesSent++
	r.stats.BytesSent += uint64(frameBytes)
}

// opened notes that the outgoing stream stands, on which the greeting comes first.
func (r *remote) opened() {
	var first []byte
	if f := r.t.cfg.Greeting; f != nil {
		first = f(r.id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected, r.losing = true, false
	if first != nil {
		r.queue, r.queued = append(r.queue, first), len(first)
		nudge(r.ready)
	}
	r.stats.LastError = nil
	if f := r.t.cfg.Up; f != nil {
		r.t.events.add(func() { f(r.id) })
	}
}

// closed notes the end of the outgoing stream and forgets what it did not send;
// unwritten is how many messages the writer had taken.
func (r *remote) closed(reason error, unwritten int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected = false
	r.stats.Disconnects++
	if lost := unwritten + len(r.queue); lost > 0 {
		r.lose(lost)
	}
	r.queue, r.queued = nil, 0
	r.stats.LastError = reason
	if r.died && isDeath(reason) {
		r.tellDown(reason)
	}
	r.died = false
}

// admitted notes that the incoming stream stands. r.mu is held.
func (r *remote) admitted(in *incoming) {
	if r.instance != 0 && r.instance != in.instance {
		r.tellDown(errRestarted) // unless it was told already
	}
	r.in, r.instance, r.died, r.down = in, in.instance, false, false
}

// wentOut notes the end of the incoming stream. The peer's process has died if
// both streams end by its doing. One alone may have been given up.
func (r *remote) wentOut(in *incoming, reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in != in {
		return // another has taken its place
	}
	r.in = nil
	switch {
	case !isDeath(reason):
	case r.connected:
		r.died = true
	default:
		r.tellDown(reason)
	}
}

// tellDown reports a death once. r.mu is held.
func (r *remote) tellDown(reason error) {
	if r.down {
		return
	}
	r.down = true
	r.dies(reason)
	r.life, r.dies = context.WithCancelCause(r.ctx)
	if f := r.t.cfg.Down; f != nil {
		r.t.events.add(func() { f(r.id, reason) })
	}
}

// isDeath reports whether a connection ended by what the kernel of the other side
// does when a process dies.
func isDeath(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Stats is the state of the streams between this member and another.
type Stats struct {
	Connected bool          // messages can be sent
	RTT       time.Duration // smoothed; 0 before the first answer
	LastError error         // why there is no connection, nil if there is

	MessagesSent, FramesSent, BytesSent             uint64
	MessagesReceived, FramesReceived, BytesReceived uint64
	StreamBytesSent, StreamBytesReceived            uint64 // bulk
	StreamsSent, StreamsReceived                    uint64 // to their ends
	StreamsUnsent, StreamsUnreceived                uint64 // that failed on the way
	StreamsSending, StreamsReceiving                int    // now
	Disconnects                                     uint64 // ends of the connection by which messages are sent
	MessagesDropped                                 uint64 // by Send, or with a connection
	QueueBytes                                      int    // waiting now
}

// Stats returns the state of the streams with a peer, the zero value if there is
// no such peer.
func (t *Transport) Stats(id machine.NodeID) Stats {
	r := t.remote(id)
	if r == nil {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Connected, s.QueueBytes = r.connected, r.queued
	return s
}

// count changes the figures.
func (r *remote) count(f func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.stats)
}
