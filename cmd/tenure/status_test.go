package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
)

// Records that are of no run are no periodic jobs, nor are keys that are no records. Of many keys the first are
// looked at.
func TestJobsOfAServer(t *testing.T) {
	client, err := serverAt(t.Context(), place{url: "etcd://" + startServer(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := func(r tenure.Run) string {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for key, value := range map[string]string{
		"backup.record": run(tenure.Run{Started: began}), "a/report.record": run(tenure.Run{Started: began.Add(time.Hour), Failed: true}),
		"of-others.record": `{"a":1}`, "odd.record": "odd", "empty.record": "", ".record": run(tenure.Run{Started: began}), "record": run(tenure.Run{Started: began}), "nightly": "x",
	} {
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	jobs, more, err := askJobs(t.Context(), client)
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprintf("%s at %s, failed: %v", j.Name, j.LastRun.Started.UTC().Format(time.TimeOnly), j.LastRun.Failed))
	}
	if want := []string{"a/report at 04:04:05, failed: true", "backup at 03:04:05, failed: false"}; err != nil || more || !slices.Equal(got, want) {
		t.Errorf("the jobs are %q, more: %v, %v; want %q", got, more, err, want)
	}
	for i := range jobsShown - 4 { // with two that are jobs and three that are none, one too many
		if _, err := client.Put(t.Context(), fmt.Sprintf("b/%03d.record", i), run(tenure.Run{Started: began})); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, more, err := askJobs(t.Context(), client); err != nil || !more || len(jobs) < jobsShown-4 || len(jobs) > jobsShown {
		t.Errorf("of %d records %d jobs are shown, more: %v, %v; want as many as one look takes, and that there may be more", jobsShown+1, len(jobs), more, err)
	}
}

// A status is put together from members' reports that do not agree: the foremost member, the
// leader of the latest term, how far behind the others are.
func TestStatusOfManyAnswers(t *testing.T) {
	s := &clusterStatus{Members: []memberStatus{{ID: "a", Name: "one"}, {ID: "b"}, {ID: "c", Name: "three", Errors: []string{"no answer"}}}}
	s.fill([]*clientv3.StatusResponse{
		{Header: &pb.ResponseHeader{Revision: 7}, Version: "3.7", Leader: 0xa, RaftTerm: 4, RaftIndex: 30, RaftAppliedIndex: 28, DbSize: 100},
		{Header: &pb.ResponseHeader{Revision: 9}, Version: "3.8", Leader: 0xb, RaftTerm: 5, RaftIndex: 40, RaftAppliedIndex: 41, DbSize: 200, DbSizeInUse: 150, Errors: []string{"odd", "full"}},
		nil,
	})
	want := []memberStatus{
		{ID: "a", Name: "one", OldLeader: true, Version: "3.7", Revision: 7, Index: 28, Lag: 12, Bytes: 100},
		{ID: "b", Leader: true, Version: "3.8", Revision: 9, Index: 41, Bytes: 200, Errors: []string{"odd", "full"}},
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
	for _, line := range []string{"leader b, term 5", "one a old leader 3.7 7 28 12 100", "b leader 3.8 9 41 0 200 odd; full", "three c ? 0 0 0 0 no answer"} {
		if got := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(got, line) {
			t.Errorf("the table does not say %q:\n%s", line, &table)
		}
	}
}
