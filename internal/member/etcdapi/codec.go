package etcdapi

import (
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's own, which sizes messages once and encodes them into pooled
// buffers, but for watch responses, which bring their events encoded, and large answers,
// which have room of their own.
type codec struct{ traffic *traffic }

// traffic counts the bytes of messages.
type traffic struct{ received, sent atomic.Uint64 }

// Traffic returns the bytes of all messages that this member has received from clients and has
// sent to them.
func (s *Server) Traffic() (received, sent uint64) {
	return s.traffic.received.Load(), s.traffic.sent.Load()
}

var standard = encoding.GetCodecV2(proto.Name)

func (codec) Name() string { return proto.Name }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, err := c.encode(v)
	if c.traffic != nil {
		c.traffic.sent.Add(uint64(out.Len()))
	}
	return out, err
}

func (codec) encode(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *frame:
		return v.buffers(), nil
	case *answer:
		return v.buffers()
	}
	return standard.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if c.traffic != nil {
		c.traffic.received.Add(uint64(data.Len()))
	}
	return standard.Unmarshal(data, v)
}
