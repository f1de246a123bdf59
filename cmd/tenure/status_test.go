package main

import (
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A status is put together from members' reports that do not agree: the foremost member, the
// leader of the latest term, how far behind the others are.
func TestStatusOfManyAnswers(t *testing.T) {
	s := &clusterStatus{Members: []memberStatus{{ID: "a", Name: "one"}, {ID: "b"}, {ID: "c", Name: "three", Errors: []string{"no answer"}}}}
	s.fill([]*clientv3.StatusResponse{
		{Header: &pb.ResponseHeader{Revision: 7}, Version: "3.7", Leader: 0xa, RaftTerm: 4, RaftIndex: 30, RaftAppliedIndex: 28, DbSize: 100},
		{Header: &pb.ResponseHeader{Revision: 9}, Version: "3.8", Leader: 0xb, RaftTerm: 5, RaftIndex: 40, RaftAppliedIndex: 41, DbSize: 200, Errors: []string{"odd"}},
		nil,
	})
	want := []memberStatus{
		{ID: "a", Name: "one", Leader: true, Version: "3.7", Revision: 7, Index: 28, Lag: 12, Bytes: 100},
		{ID: "b", Leader: true, Version: "3.8", Revision: 9, Index: 41, Bytes: 200, Errors: []string{"odd"}},
		{ID: "c", Name: "three", Errors: []string{"no answer"}},
	}
	if !reflect.DeepEqual(s.Members, want) {
		t.Errorf("members %+v\nwant %+v", s.Members, want)
	}
	if s.Term != 5 || s.Leader != "b" {
		t.Errorf("%s leads in term %d, want b, which has no name, in term 5", s.Leader, s.Term)
	}
	for id, name := range map[string]string{"a": "one", "b": "b", "d": "d"} {
		if got := s.nameOf(id); got != name {
			t.Errorf("the name of %s is %s, want %s", id, got, name)
		}
	}
	var table strings.Builder
	s.table(&table)
	for _, line := range []string{"leader b, term 5", "one a leader 3.7 7 28 12 100", "b leader 3.8 9 41 0 200 odd", "three c ? 0 0 0 0 no answer"} {
		if got := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(got, line) {
			t.Errorf("the table does not say %q:\n%s", line, &table)
		}
	}
}
