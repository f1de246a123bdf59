package rolling

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/compat/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// The judges accept what is right, and each falsehood is found.
func TestJudges(t *testing.T) {
	state := func() (all []*mvccpb.KeyValue) {
		for i, key := range []string{"a", "b", "c"} {
			all = append(all, &mvccpb.KeyValue{Key: []byte(key), Value: []byte("1"), ModRevision: int64(i + 2), Version: 1})
		}
		return all
	}
	acknowledged := []write{{"a", "1", 2}, {"c", "1", 4}} // b's answer was lost
	events := []seen{{"a", "1", 2}, {"b", "1", 3}, {"c", "1", 4}}
	if faults := slices.Concat(judgeState(acknowledged, state()), judgeWatch(events, state())); len(faults) > 0 {
		t.Errorf("what is right is refused: %v", faults)
	}
	for what, change := range map[string]func(s []*mvccpb.KeyValue) []*mvccpb.KeyValue{
		"a write is lost":        func(s []*mvccpb.KeyValue) []*mvccpb.KeyValue { return s[:2] },
		"another value is there": func(s []*mvccpb.KeyValue) []*mvccpb.KeyValue { s[0].Value = []byte("2"); return s },
		"another revision":       func(s []*mvccpb.KeyValue) []*mvccpb.KeyValue { s[2].ModRevision = 5; return s },
		"it was written twice":   func(s []*mvccpb.KeyValue) []*mvccpb.KeyValue { s[0].Version = 2; return s },
	} {
		if faults := judgeState(acknowledged, change(state())); len(faults) == 0 {
			t.Errorf("%s, and nothing is found", what)
		}
	}
	for what, events := range map[string][]seen{
		"a gap":             {events[0], events[2]},
		"the end is gone":   events[:2],
		"one is seen twice": {events[0], events[1], events[1], events[2]},
		"in another order":  {events[1], events[0], events[2]},
		"another value":     {events[0], {"b", "2", 3}, events[2]},
		"one that is not":   append(slices.Clone(events), seen{"d", "1", 5}),
	} {
		if faults := judgeWatch(events, state()); len(faults) == 0 {
			t.Errorf("%s, and nothing is found", what)
		}
	}
	for err, want := range map[error]bool{
		rpctypes.ErrGRPCInvalidAuthToken: true, rpctypes.ErrPermissionDenied: true, rpctypes.ErrGRPCAuthOldRevision: true,
		rpctypes.ErrNoLeader: false, context.DeadlineExceeded: false, errors.New("odd"): false,
	} {
		if ofUsers(err) != want {
			t.Errorf("%v is taken for a reason of users: %v", err, !want)
		}
	}
}

// Faults of etcd are listed and fail nothing, and those of Tenure fail.
func TestVerdict(t *testing.T) {
	many := slices.Repeat([]error{errors.New("a fault")}, 8000)
	for _, tt := range []struct {
		kind   server.Kind
		faults []error
		lines  int
		fails  bool
	}{
		{server.Etcd, many, maxListed + 1, false}, {server.Etcd, many[:maxListed], maxListed, false}, {server.Etcd, nil, 0, false},
		{server.Tenure, many, maxListed + 1, true}, {server.Tenure, many[:1], 1, true}, {server.Tenure, nil, 0, false},
	} {
		lines := listed(tt.faults)
		if len(lines) != tt.lines || fails(tt.kind, tt.faults) != tt.fails {
			t.Errorf("%d faults of %s: %d lines, fails: %v; want %d, %v", len(tt.faults), tt.kind, len(lines), !tt.fails, tt.lines, tt.fails)
		}
		if len(tt.faults) > maxListed && lines[maxListed] != "and 7980 more" {
			t.Errorf("the last line is %q", lines[maxListed])
		}
	}
}

// A watch that ends early is one fault: nobody waits for it, and no event is missed by it.
func TestAWatchThatEnds(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	c := &clients{unwatched: make(chan struct{}, 1)}
	c.watch(t.Context(), client, nil)
	if len(c.faults) != 1 || len(c.unwatched) != 1 || len(c.watches) != 0 {
		t.Errorf("a watch that has ended: faults %v, %d told, events %v; want one fault, told once", c.faults, len(c.unwatched), c.watches)
	}
}
