package diff

import (
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Step is one call, its message symbolic.
type Step struct {
	Method string
	Req    proto.Message
	Member int // that gets it: 0 leads at the start; modulo the members there are
}

// The methods that steps call.
const (
	methodRange       = "/etcdserverpb.KV/Range"
	methodRangeStream = "/etcdserverpb.KV/RangeStream"
	methodPut         = "/etcdserverpb.KV/Put"
	methodDeleteRange = "/etcdserverpb.KV/DeleteRange"
	methodTxn         = "/etcdserverpb.KV/Txn"
	methodCompact     = "/etcdserverpb.KV/Compact"
	methodGrant       = "/etcdserverpb.Lease/LeaseGrant"
	methodRevoke      = "/etcdserverpb.Lease/LeaseRevoke"
	methodTimeToLive  = "/etcdserverpb.Lease/LeaseTimeToLive"
	methodLeases      = "/etcdserverpb.Lease/LeaseLeases"
	methodKeepAlive   = "/etcdserverpb.Lease/LeaseKeepAlive"
	methodWatch       = "/etcdserverpb.Watch/Watch"
)

// newReply makes the reply message of a method.
func newReply(method string) proto.Message {
	switch method {
	case methodRange, methodRangeStream:
		return new(pb.RangeResponse)
	case methodPut:
		return new(pb.PutResponse)
	case methodDeleteRange:
		return new(pb.DeleteRangeResponse)
	case methodTxn:
		return new(pb.TxnResponse)
	case methodCompact:
		return new(pb.CompactionResponse)
	case methodGrant:
		return new(pb.LeaseGrantResponse)
	case methodRevoke:
		return new(pb.LeaseRevokeResponse)
	case methodTimeToLive:
		return new(pb.LeaseTimeToLiveResponse)
	case methodLeases:
		return new(pb.LeaseLeasesResponse)
	case methodKeepAlive:
		return new(pb.LeaseKeepAliveResponse)
	}
	panic("no reply for " + method)
}

func (s Step) String() string {
	at := ""
	if s.Member > 0 {
		at = fmt.Sprintf(" at member %d", s.Member)
	}
	return s.Method[strings.LastIndexByte(s.Method, '/')+1:] + at + " " + show(s.Req)
}

// show prints a message on one line, long ones cut.
func show(m proto.Message) string {
	if m == nil {
		return "nothing"
	}
	text := prototext.MarshalOptions{}.Format(m)
	if len(text) > 1500 {
		text = text[:1200] + "…" + text[len(text)-200:]
	}
	return "{" + text + "}"
}
