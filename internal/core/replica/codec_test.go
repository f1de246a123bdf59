package replica

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// toldBody is the body of a message between members.
type toldBody struct {
	body any
	wire string // in hexadecimal; empty if protobuf says how it looks
}

// tail returns how many bytes of the message belong to the last part, which has no length of its own.
func (c toldBody) tail() int {
	switch m := c.body.(type) {
	case *raftpb.Message:
		return proto.Size(m)
	case reported:
		return proto.Size(m.Message)
	case announced:
		return proto.Size(m.Message)
	case forward:
		return len(m.Entry)
	case counts:
		return len(m.Body)
	}
	return 0
}

// toldBodies returns one body of each kind. All fields are set, and no two values are alike.
func toldBodies() []toldBody {
	term, index := uint64(3), uint64(9)
	message := func(kind raftpb.MessageType) *raftpb.Message {
		return &raftpb.Message{Type: kind.Enum(), Term: &term, Index: &index}
	}
	return []toldBody{
		{&raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: &term, Entries: []*raftpb.Entry{{Term: &term, Index: &index, Data: []byte("d")}}}, ""},
		{forward{Term: 3, Seq: 4, Entry: []byte("e")}, "02030465"},
		{refused{Boot: 300, Term: 3, Seq: 4}, "03ac020304"},
		{leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 1, Lease: -7, Renew: true}, {ID: 2, Lease: 8, Renew: true}}}, "040502010d01021001"},
		{leaseAnswers{Boot: 5, Answers: []AnswerLease{{ID: 1, Lease: -7, TTL: 50, Remaining: 10}}}, "050501010d6414"},
		{readAsk{Boot: 5, Round: 6, Keys: keyspan.Set{{Key: []byte("k"), End: []byte("l")}, {Key: []byte("m"), End: []byte("n")}}}, "06050602016b016c016d016e"},
		{readAnswer{Boot: 5, Round: 6, Index: 300}, "070506ac02"},
		{reported{message(raftpb.MsgAppResp), quorumlease.Report{
			Boot: 5, Term: 3, Durable: 9, Received: 12, Everyone: true, Holders: []quorumlease.Lifetime{{Member: 2, Boot: 300}},
		}}, ""},
		{announced{message(raftpb.MsgApp), quorumlease.News{Term: 3, Released: 8, Horizon: 11, Held: []uint64{9}, Stalled: []machine.NodeID{2}}}, ""},
		{announced{message(raftpb.MsgHeartbeat), quorumlease.News{Term: 3, Released: 8, Horizon: 11, Held: []uint64{9}, Stalled: []machine.NodeID{2}}}, ""},
		{quorumlease.Request{Boot: 5, Seq: 6}, "0a0506"},
		{quorumlease.Promise{Boot: 5, Seq: 6, TTL: 100, Stamp: quorumlease.Stamp{Term: 3, Index: 9}}, "0b0506640309"},
		{quorumlease.Return{Boot: 5, Seq: 6}, "0c0506"},
		{quorumlease.Report{Boot: 5, Term: 3, Durable: 9, Received: 12, Everyone: true, Holders: []quorumlease.Lifetime{{Member: 2, Boot: 4}, {Member: 7, Boot: 8}}}, "0d0503090c010202040708"},
		{quorumlease.News{Term: 3, Released: 8, Horizon: 11, Held: []uint64{9, 10}, Stalled: []machine.NodeID{2, 4}}, "0e03080b02090a020204"},
		{counts{Boot: 5, Seq: 6, Trips: []roundTrip{{Member: 2, Time: 100}, {Member: 3, Time: 101}}, Body: []byte("b")}, "0f05060202640365" + "62"},
		{rejected{Boot: 300, Term: 3, Seq: 2, Why: unhealthy}, "10ac02030209"},
	}
}

// blank names an unset field of a type that this package or quorumlease declares.
func blank(v reflect.Value, name string) string {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := blank(v.Field(i), name+"."+v.Type().Field(i).Name); field != "" {
				return field
			}
		}
		return ""
	case reflect.Slice:
		for i := range v.Len() {
			if field := blank(v.Index(i), name); field != "" {
				return field
			}
		}
	}
	if v.IsZero() {
		return name
	}
	return ""
}

func sameBody(a, b any) bool {
	switch x := a.(type) {
	case *raftpb.Message:
		y, ok := b.(*raftpb.Message)
		return ok && proto.Equal(x, y)
	case reported:
		y, ok := b.(reported)
		return ok && proto.Equal(x.Message, y.Message) && reflect.DeepEqual(x.Report, y.Report)
	case announced:
		y, ok := b.(announced)
		return ok && proto.Equal(x.Message, y.Message) && reflect.DeepEqual(x.News, y.News)
	}
	return reflect.DeepEqual(a, b)
}

// A message arrives as it was sent. Its bytes are the same in all versions. A decoded body refers to
// no part of the message. A message that is cut off, or that has extra bytes, is refused.
func TestBodiesArriveAsTheyWereTold(t *testing.T) {
	for _, c := range toldBodies() {
		name := fmt.Sprintf("%T", c.body)
		if m, ok := c.body.(*raftpb.Message); ok {
			name = m.GetType().String()
		} else if field := blank(reflect.ValueOf(c.body), name); field != "" {
			t.Errorf("%s is not set: whether it arrives is not seen", field)
		}
		p, err := EncodeBody(c.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.wire != "" && hex.EncodeToString(p) != c.wire {
			t.Errorf("%s is told as %x, and members of other versions expect %s", name, p, c.wire)
		}
		for n := range len(p) - c.tail() {
			if got, err := DecodeBody(bytes.Clone(p[:n])); err == nil {
				t.Errorf("%s: %d bytes of %d are taken for %+v", name, n, len(p), got)
			}
		}
		_, batch := c.body.(forward)
		_, counted := c.body.(counts)
		if got, err := DecodeBody(append(bytes.Clone(p), 0)); err == nil && !batch && !counted {
			t.Errorf("%s: with a byte behind it it is taken for %+v", name, got)
		}
		got, err := DecodeBody(p)
		for i := range p {
			p[i] = 0xff
		}
		if err != nil || !sameBody(got, c.body) {
			t.Errorf("%s: %+v arrives as %+v, %v", name, c.body, got, err)
		}
	}
}

// A false flag and an empty list survive encoding and decoding.
func TestWhatIsFalseArrives(t *testing.T) {
	for _, body := range []any{
		leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 1, Lease: 7}, {ID: 2, Lease: 7, Renew: true}}},
		quorumlease.Report{Boot: 5, Term: 3, Holders: []quorumlease.Lifetime{{Member: 2, Boot: 4}}},
		quorumlease.Report{Boot: 5, Term: 3, Everyone: true},
		readAsk{Boot: 5, Round: 6, Keys: keyspan.Set{{Key: []byte("k"), End: []byte{}}}},
	} {
		p, err := EncodeBody(body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeBody(p); err != nil || !reflect.DeepEqual(got, body) {
			t.Errorf("%+v arrives as %+v, %v", body, got, err)
		}
	}
}

// A report accompanies an acknowledgment, and news accompany an append or a heartbeat. No other
// message carries them.
func TestNewsComeWithAppends(t *testing.T) {
	for kind := range raftpb.MessageType_name {
		m := &raftpb.Message{Type: raftpb.MessageType(kind).Enum(), Term: new(uint64(3))}
		for _, c := range []struct {
			body any
			ok   bool
		}{
			{reported{m, quorumlease.Report{Boot: 1}}, m.GetType() == raftpb.MsgAppResp},
			{announced{m, quorumlease.News{Term: 3}}, m.GetType() == raftpb.MsgApp || m.GetType() == raftpb.MsgHeartbeat},
		} {
			p, err := EncodeBody(c.body)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeBody(p); (err == nil) != c.ok {
				t.Errorf("%T with %v: %v, it is to be taken: %v", c.body, m.GetType(), err, c.ok)
			}
		}
	}
}

// A short message or entry that claims to contain many elements is refused before memory is allocated
// for them.
func TestShortMessagesAskForLittle(t *testing.T) {
	const many = 1<<20 - 1
	decode := func(p []byte) error { _, err := DecodeBody(p); return err }
	for name, c := range map[string]struct {
		p    []byte
		read func([]byte) error
	}{
		"questions about leases": {numbers(wireLeaseAsks, 5, many, 1, 2, 3), decode},
		"answers about leases":   {numbers(wireLeaseAnswers, 5, many, 1, 2, 3), decode},
		"keys":                   {numbers(wireReadAsk, 5, 6, many, 0, 0), decode},
		"holders":                {numbers(wireReport, 5, 3, 9, 12, 0, many, 1, 2), decode},
		"held entries":           {numbers(wireNews, 3, 8, 11, many, 1, 2), decode},
		"stalled members":        {numbers(wireNews, 3, 8, 11, 0, many, 1, 2), decode},
		"round trips":            {numbers(wireCounts, 5, 6, many, 1, 2), decode},
		"requests": {numbers(entryVersion, 3, 1, 1, 1, many, 1, 0), func(p []byte) error {
			_, err := decodeBatch(p)
			return err
		}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.read(c.p)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 1<<20 {
			t.Errorf("%s: a message of %d bytes takes %d bytes: %v", name, len(c.p), took, err)
		}
	}
}

// Counts may have as many bytes as a member may send at once, and no more.
func TestCountsAreBounded(t *testing.T) {
	for n, ok := range map[int]bool{maxCounts: true, maxCounts + 1: false} {
		p, err := EncodeBody(counts{Boot: 5, Seq: 6, Body: make([]byte, n)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeBody(p); (err == nil) != ok {
			t.Errorf("%d bytes of counts: %v, they are to be taken: %v", n, err, ok)
		}
	}
}

// Entries are on disk, where members of all versions read them. Their format never changes.
func TestEntriesLookAsOnDisk(t *testing.T) {
	put := []byte{kindPut, 'x'}
	b := &batch{Term: 3, From: 2, Boot: 300, Seq: 4, Requests: []Propose{{ID: 5, Body: put}, {ID: 6, Body: put}}}
	p := b.encode()
	if got, want := hex.EncodeToString(p), "010302ac0204"+"02"+"05020178"+"06020178"; got != want {
		t.Errorf("a batch is %s, on disk it is %s", got, want)
	}
	size := 1 + 5*10
	for _, r := range b.Requests {
		size += r.size()
	}
	if big := (&batch{Requests: []Propose{{ID: 1<<64 - 1, Body: make([]byte, 1000)}}}); len(p) > size || len(big.encode()) > 1+5+big.Requests[0].size() || big.Requests[0].size() < 1000+10+2 {
		t.Errorf("a batch of %d bytes was reckoned with %d, and a request of 1000 with %d", len(p), size, big.Requests[0].size())
	}
	for n := range p {
		if got, err := decodeBatch(p[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken for %+v", n, len(p), got)
		}
	}
	if got, err := decodeBatch(append(bytes.Clone(p), 0)); err == nil {
		t.Errorf("with a byte behind it it is taken for %+v", got)
	}
	keep(p)
	if got, err := decodeBatch(p); err != nil || !reflect.DeepEqual(got, b) || !isKept(p) {
		t.Errorf("%+v that is kept is read as %+v, %v", b, got, err)
	}
	for _, version := range []byte{0, 3, 255} {
		p[0] = version
		if got, err := decodeBatch(p); err == nil {
			t.Errorf("an entry of version %d is guessed to be %+v", version, got)
		}
	}
}

// The kinds of requests are on disk, too. Their numbers never change, and each is recognized.
func TestKindsOfRequests(t *testing.T) {
	for kind, m := range map[byte]proto.Message{
		1: &pb.PutRequest{Key: []byte("k")}, 2: &pb.DeleteRangeRequest{Key: []byte("k")}, 3: &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("k")}}},
		4: &pb.CompactionRequest{Revision: 7}, 5: &pb.LeaseGrantRequest{ID: 7, TTL: 60}, 6: &pb.LeaseRevokeRequest{ID: 7},
		9: &pb.Member{ID: 1, Name: "a"}, 10: wrapperspb.String("off"), 11: wrapperspb.Bytes([]byte("b")), 13: RemoveMember(3),
		15: &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 7, Alarm: pb.AlarmType_CORRUPT},
	} {
		body, err := EncodeRequest(m)
		if err != nil || body[0] != kind || !knownKind(kind) {
			t.Errorf("%T is of kind %d, known %v, %v; on disk it is of kind %d", m, body[:1], knownKind(kind), err, kind)
			continue
		}
		if got, back, err := decodeRequest(body); err != nil || got != kind || !proto.Equal(back, m) {
			t.Errorf("%v is read as %v of kind %d, %v", m, back, got, err)
		}
	}
	if kindCheckpoint != 7 || kindExpire != 8 || kindRead != 12 || !knownKind(kindCheckpoint) || !knownKind(kindRead) || knownKind(0) || knownKind(16) {
		t.Error("a checkpoint is of kind 7, an expiry of kind 8, a read of kind 12, and none of kind 0 or 16")
	}
	for kind := range 256 {
		if known := requestType(byte(kind)) != nil; known != knownKind(byte(kind)) {
			t.Errorf("kind %d: it is known: %v, and has a message: %v", kind, knownKind(byte(kind)), known)
		}
	}
	if _, err := EncodeRequest(&pb.RangeRequest{}); err == nil {
		t.Error("a request that cannot be replicated was encoded")
	}
	for _, body := range [][]byte{nil, {200}, {kindPut, 10, 1, 'k', 0xff}} {
		if _, m, err := decodeRequest(body); err == nil {
			t.Errorf("%v is read as %v", body, m)
		}
	}
}

// A read that takes a place in the log covers the ranges that were asked for.
func TestAReadIsOfWholeRanges(t *testing.T) {
	keys := keyspan.Set{{Key: []byte("a"), End: []byte("c")}, {Key: []byte("x")}}
	kind, m, err := decodeRequest(EncodeRead(keys))
	txn, ok := m.(*pb.TxnRequest)
	if err != nil || !ok || kind != kindRead || len(txn.Compare) != 2 {
		t.Fatalf("a read of two ranges is of kind %d: %v, %v", kind, m, err)
	}
	for i, c := range txn.Compare {
		if !bytes.Equal(c.Key, keys[i].Key) || !bytes.Equal(c.RangeEnd, keys[i].End) {
			t.Errorf("range %d is from %q to %q", i, c.Key, c.RangeEnd)
		}
	}
}

// A flag has one of two values, and a message with any other is refused. A renewal that passed for a
// look would be answered and would renew nothing.
func TestFlagsAreOneOfTwo(t *testing.T) {
	term, index := uint64(3), uint64(9)
	ack := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: &term, Index: &index}
	for name, c := range map[string]struct {
		with, without any
	}{
		"a renewal":         {leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 1, Lease: 7, Renew: true}, {ID: 2, Lease: 7}}}, leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 1, Lease: 7}, {ID: 2, Lease: 7}}}},
		"a report":          {quorumlease.Report{Boot: 5, Term: 3, Everyone: true}, quorumlease.Report{Boot: 5, Term: 3}},
		"an acknowledgment": {reported{ack, quorumlease.Report{Boot: 5, Term: 3, Everyone: true}}, reported{ack, quorumlease.Report{Boot: 5, Term: 3}}},
	} {
		p, err := EncodeBody(c.with)
		if err != nil {
			t.Fatal(err)
		}
		q, err := EncodeBody(c.without)
		if err != nil || len(p) != len(q) {
			t.Fatalf("%s is told as %x and %x, %v", name, p, q, err)
		}
		for at := range p {
			if p[at] == q[at] {
				continue
			}
			for _, b := range []byte{2, 3, 0x7f, 0x80, 0xff} {
				p[at] = b
				if got, err := DecodeBody(p); !errors.Is(err, errBadMessage) {
					t.Errorf("%s with a flag of %d is taken for %+v, %v", name, b, got, err)
				}
			}
		}
	}
}
