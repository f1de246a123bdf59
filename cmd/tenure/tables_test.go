package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/cli"
)

// squeezed is a text with single blanks, and | between its lines.
func squeezed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "|")
}

// The holders of a key are told with their distance, or else why there are none and what is nearest to an answer.
func TestTableOfKeyHolders(t *testing.T) {
	for want, s := range map[string]keyHolders{
		"NAME ID ROUND TRIP URLS|a 1 1.5 ms http://a:1,http://a:2|b 2 12.0 ms http://b:1": {Holders: []keyHolder{
			{"1", "a", []string{"http://a:1", "http://a:2"}, 1.49}, {"2", "b", []string{"http://b:1"}, 12},
		}},
		"no member answers by itself at this time (policy off); the leader is nearest to an answer: a at http://a:1,http://a:2": {
			Policy: "off", Leader: "a", leader: &readleasepb.Member{Id: 1, Name: "a", ClientUrls: []string{"http://a:1", "http://a:2"}},
		},
		"no member answers by itself at this time (policy all); and there is no leader: a majority of the members must be up and reach each other": {Policy: "all"},
	} {
		var text strings.Builder
		if s.table(&text); squeezed(text.String()) != want {
			t.Errorf("told is %q, want %q", squeezed(text.String()), want)
		}
	}
}

// A status has the role, the state and the trouble of each member, and the last runs of jobs.
func TestTableOfAStatus(t *testing.T) {
	s := clusterStatus{Cluster: "c1", Leader: "a", Term: 7, Leases: 3, Members: []memberStatus{
		{ID: "1", Name: "a", Leader: true, Version: "3.7", Revision: 10, Index: 20, Bytes: 30, URLs: []string{"http://a:1", "http://a:2"}},
		{ID: "2", Name: "b", Version: "3.7", Revision: 11, Index: 18, Lag: 2, Bytes: 31, Errors: []string{"one", "two"}},
		{ID: "3", Name: "c", Learner: true, Version: "3.8"}, {ID: "4", Name: "d"},
	}}
	head := "cluster c1, leader a, term 7, 3 leases"
	rows := func(cells ...string) string {
		return "|" + strings.Join([]string{
			"a 1 leader 3.7 10 20 0 30 " + cells[0] + "http://a:1,http://a:2", "b 2 follower 3.7 11 18 2 31 " + cells[1] + "one; two",
			strings.TrimSpace("c 3 learner 3.8 0 0 0 0 " + cells[2]), strings.TrimSpace("d 4 ? 0 0 0 0 " + cells[3]),
		}, "|")
	}
	var text strings.Builder
	s.table(&text)
	if got, want := squeezed(text.String()), head+"||NAME ID ROLE VERSION REVISION APPLIED LAG BYTES URLS ERRORS"+rows("", "", "", ""); got != want {
		t.Errorf("without read leases a status is\n%s\nwant\n%s", got, want)
	}
	s.Leader = ""
	s.ReadLeases = &readLeases{Policy: "all", Order: "strict", Members: []readLeaseMember{
		{Name: "a", Holds: "all keys", Reads: &reads{Local: 3, Rounds: 1}}, {Name: "b", Reads: &reads{}}, {Name: "c", Holds: "2 ranges", Reads: &reads{Forwarded: 2}}, {Name: "d"},
	}}
	text.Reset()
	s.table(&text)
	want := "cluster c1, leader none, term 7, 3 leases|read leases: policy all, strict order, held by a, c (2 ranges)||NAME ID ROLE VERSION REVISION APPLIED LAG BYTES HOLDS READS LOCAL URLS ERRORS" +
		rows("all keys 4 75.0 % ", "- 0 - ", "2 ranges 2 0.0 %", "- ? ?")
	if got := squeezed(text.String()); got != want {
		t.Errorf("with read leases a status is\n%s\nwant\n%s", got, want)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	jobs := clusterStatus{Jobs: make([]statusJob, 2)}
	jobs.Jobs[0].Name, jobs.Jobs[0].LastRun.Started = "a", at
	jobs.Jobs[1].Name, jobs.Jobs[1].LastRun.Started = "b", at.Add(time.Hour)
	for _, more := range []bool{false, true} {
		text.Reset()
		jobs.MoreJobs = more
		jobs.jobTable(&text)
		want := fmt.Sprintf("|JOB LAST RUN|a %s|b %s", jobs.Jobs[0].LastRun, jobs.Jobs[1].LastRun)
		if more {
			want += "|There may be more jobs: tenure lease show NAME shows each."
		}
		if got := squeezed(text.String()); got != want {
			t.Errorf("jobs, more: %v, are told as\n%s\nwant\n%s", more, got, want)
		}
	}
	for n := range 3 {
		var s clusterStatus
		s.addJobs(make([]statusJob, n), true)
		if len(s.Jobs) != n || s.MoreJobs != (n > 0) {
			t.Errorf("of %d jobs and more keys a status has %d, more: %v", n, len(s.Jobs), s.MoreJobs)
		}
		if s.addJobs(s.Jobs, false); s.MoreJobs {
			t.Errorf("all %d jobs are known, and there are more", n)
		}
	}
	text.Reset()
	if (clusterStatus{MoreJobs: true}).jobTable(&text); text.Len() > 0 {
		t.Errorf("no jobs are told as %q", &text)
	}
}

// Where no member answers, the first reason is told, with the exit code of a store that does not answer; and a member
// that listens and says nothing is told apart from one that is not there.
func TestNobodyTellsOfReadLeases(t *testing.T) {
	silent := listenLocal(t)
	defer silent.Close()
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	down := freeAddresses(t, 1)[0]
	client, err := serverAt(t.Context(), place{url: "etcd://" + down})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	members := []*pb.Member{{ID: 1, Name: "new"}, {ID: 2, Name: "down", ClientURLs: []string{"http://" + down}}}
	_, err = askReadLeases(t.Context(), client, members, members)
	err = trouble(place{url: "etcd://a"}, err)
	if wantExit(t, err, cli.ExitUnavailable); err.Error() != "no member tells of its read leases: it has not started yet: it has no client URL" {
		t.Errorf("nobody tells of read leases: %v", err)
	}
	_, err = askReadLeases(t.Context(), client, nil, nil)
	if err = trouble(place{url: "etcd://a"}, err); err == nil || !strings.HasPrefix(err.Error(), "the server at etcd://a has no read leases to show or set") {
		t.Errorf("nobody is there to ask: %v", err)
	}
	members = append(members, &pb.Member{ID: 3, Name: "silent", ClientURLs: []string{"http://" + silent.Addr().(*net.TCPAddr).String()}})
	answers, errs := askMembers(t.Context(), client, members)
	for i, want := range []string{"it has not started yet: it has no client URL", "no answer from http://" + down + ": ", "no answer from http://" + silent.Addr().String() + ": nothing came within 2s"} {
		if answers[i] != nil || errs[i] == nil || !strings.HasPrefix(errs[i].Error(), want) || strings.Contains(errs[i].Error(), "rpc error") {
			t.Errorf("%s answers %v, %v; want nothing, and %q", members[i].Name, answers[i], errs[i], want)
		}
	}
}

// A member is listed with all its addresses, by its ID at least.
func TestTableOfMembers(t *testing.T) {
	c := cluster{Members: []listedMember{
		{ID: "1", Name: "a", Leader: true, Reachable: true, Applied: 7, PeerURLs: []string{"http://a:1", "http://a:2"}, ClientURLs: []string{"http://a:3", "http://a:4"}},
		{ID: "2", Learner: true, PeerURLs: []string{"http://b:1"}}, {ID: "3", Name: "c", ClientURLs: []string{"http://c:3"}},
		{ID: "4", Name: "d", Leader: true, Learner: true, PeerURLs: []string{"http://d:1"}},
	}}
	var text strings.Builder
	c.table(&text)
	want := "NAME ID ROLE ANSWERS APPLIED PEER URLS CLIENT URLS|a 1 leader yes 7 http://a:1,http://a:2 http://a:3,http://a:4|- 2 learner not started - http://b:1 -|c 3 voter no - http://c:3|d 4 leader not started - http://d:1 -"
	if got := squeezed(text.String()); got != want {
		t.Errorf("listed is %s, want %s", got, want)
	}
}

// The versions are told each behind its name.
func TestTextOfVersions(t *testing.T) {
	v := versionOf()
	want := fmt.Sprintf("tenure %s\ncommit %s\napi    %s\ngo     %s %s\n", v.Tenure, v.Commit, v.API, v.Go, v.System)
	if out, err := command(t, "version"); err != nil || out != want {
		t.Errorf("the versions are told as %q, %v; want %q", out, err, want)
	}
}
