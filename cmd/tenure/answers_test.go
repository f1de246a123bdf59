package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/api/readleasepb"
)

// The warning of a break tells until when the holder may act, if that is known, and which token is refused then.
func TestWhatABreakWarnsOf(t *testing.T) {
	at := time.Now().Add(time.Minute)
	for want, h := range map[string]tenure.Holding{
		"h may still act until it learns of this; only a resource that checks tokens refuses its token 7 then":                                                       {Holder: "h", Token: 7},
		"h may still act until it learns of this, at the latest until " + at.Format(time.TimeOnly) + "; only a resource that checks tokens refuses its token 7 then": {Holder: "h", Token: 7, Until: at.UTC()},
	} {
		if got := warning(h); got != want {
			t.Errorf("the warning is %q, want %q", got, want)
		}
	}
}

// The columns say in words which keys a holder may read by itself, and never more than that.
func TestWhatAHolderHolds(t *testing.T) {
	keys := func(n int) []*readleasepb.KeyRange { return make([]*readleasepb.KeyRange, n) }
	for want, h := range map[string]*readleasepb.Holder{
		"all keys": {}, "some keys": {Partial: true, Grantors: []uint64{1, 2}}, "1 range": {Keys: keys(1)}, "2 ranges": {Keys: keys(2), Partial: true}, "31 ranges": {Keys: keys(31)},
	} {
		if got := holding(h); got != want {
			t.Errorf("%v holds %q, want %q", h, got, want)
		}
	}
}

// manyKeys is a store with more keys than a status looks at, of which the first are these.
type manyKeys struct {
	pb.UnimplementedKVServer
	first []string
	asked *pb.RangeRequest
}

func (m *manyKeys) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	m.asked = r
	got := &pb.RangeResponse{Header: &pb.ResponseHeader{}, More: true}
	for _, key := range m.first {
		got.Kvs = append(got.Kvs, &mvccpb.KeyValue{Key: []byte(key)})
	}
	return got, nil
}

func (m *manyKeys) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	text, err := json.Marshal(tenure.Run{Started: time.Now()})
	got := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: true}
	for _, op := range r.Success {
		kv := &mvccpb.KeyValue{Key: op.GetRequestRange().Key, Value: text}
		got.Responses = append(got.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{kv}}}})
	}
	return got, err
}

// Where a store has more keys than a status looks at there may be more jobs, known ones or none. All keys are
// looked at from the first on, without their values, at whichever member answers.
func TestMoreKeysThanAStatusLooksAt(t *testing.T) {
	for _, first := range [][]string{nil, {"a", "b"}, {"a", "nightly.record"}} {
		l, g, m := listenLocal(t), grpc.NewServer(), &manyKeys{first: first}
		pb.RegisterKVServer(g, m)
		serveUntilEnd(t, g, l)
		client, err := serverAt(t.Context(), place{url: "etcd://" + l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		jobs, more, err := askJobs(t.Context(), client)
		client.Close()
		if want := min(len(first)/2, strings.Count(strings.Join(first, " "), ".record")); err != nil || !more || len(jobs) != want {
			t.Errorf("of %q and more keys the jobs are %v, more: %v, %v; want %d, and that there may be more", first, jobs, more, err, want)
		}
		if r := m.asked; string(r.Key) != "\x00" || string(r.RangeEnd) != "\x00" || r.Limit != 10_000 || !r.KeysOnly || !r.Serializable {
			t.Errorf("a status asks for %v, want the first 10,000 keys of all, without values, of the member that answers", r)
		}
	}
}

// The lines of a peer tell what it does when it does it: it has stopped when nothing answers at its socket any more.
func TestLinesOfAPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.sock")
	self := freeAddresses(t, 1)[0]
	for _, form := range []string{"table", "json"} {
		cfg, mode, err := peerFlags(t, "--self", self, "--peers", self, "--t-max", "100ms", "--epsilon", "1ms", "--log-level", "error").complete()
		if err != nil {
			t.Fatal(err)
		}
		o := peerFlags(t, "--log-level", "error")
		o.listen = path
		if err := o.output.Set(form); err != nil {
			t.Fatal(err)
		}
		var events []string
		err = runPeer(cfg, o, mode, writerTo(func(line string) {
			event, _, _ := strings.Cut(line, " ")
			if form == "json" {
				var e peerEvent
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Errorf("the line %q is no JSON: %v", line, err)
				}
				event = e.Event
				if e.Peer != nil && e.Peer.Serving != (event == "serving") {
					t.Errorf("a peer says %q, want that it serves then, and not before", line)
				}
				if there := e.Peer != nil && e.Peer.Self > 0 && e.Socket == path; there != (event != "stopped") {
					t.Errorf("a peer says %q, want its state until it has stopped", line)
				}
			}
			events = append(events, strings.TrimSpace(event))
			conn, err := net.Dial("unix", path)
			if err == nil {
				conn.Close()
			}
			if stopped := strings.HasPrefix(line, "stopped") || event == "stopped"; stopped != (err != nil) {
				t.Errorf("a peer says %q, and to reach it ends with %v", line, err)
			}
			if len(events) == 2 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}
		}))
		first := map[string]string{"table": "peer", "json": "started"}[form]
		if want := fmt.Sprint([]string{first, "serving", "stopped"}); err != nil || fmt.Sprint(events) != want {
			t.Errorf("a peer ends with %v, and says %v; want %s", err, events, want)
		}
	}
}
