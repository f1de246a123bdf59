package etcdapi

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's own, which sizes messages once and encodes them into pooled
// buffers, but for watch responses, which bring their events encoded, and large answers,
// which have room of their own.
type codec struct{}

var standard = encoding.GetCodecV2(proto.Name)

func (codec) Name() string { return proto.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *frame:
		return v.buffers(), nil
	case *answer:
		return v.buffers()
	}
	return standard.Marshal(v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error { return standard.Unmarshal(data, v) }
