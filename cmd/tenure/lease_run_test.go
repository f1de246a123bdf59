package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/leasetest"
)

// lease show tells the last run of a periodic job, and that it is not known. Of other names it says nothing.
func TestShowsTheLastRun(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	nightly := func(name string, fn func(context.Context, tenure.Lease) error) {
		_ = tenure.Periodic{Leaser: l, Claim: tenure.Claim{Name: name}, Every: time.Hour}.Do(t.Context(), fn)
	}
	nightly("good", func(context.Context, tenure.Lease) error { return nil })
	nightly("bad", func(context.Context, tenure.Lease) error { return errors.New("odd") })
	if err := tenure.Do(t.Context(), l, tenure.Claim{Name: "other"}, func(ctx context.Context, held tenure.Lease) error {
		return l.(tenure.Recorder).SetRecord(ctx, held, []byte("odd"))
	}); err != nil {
		t.Fatal(err)
	}
	nightly("runs", func(context.Context, tenure.Lease) error {
		for name, want := range map[string]string{
			"good": ", ended after ", "bad": ", failed after ", "runs": ", has not ended", "none": "", "other": "no Periodic has written",
		} {
			var text, raw strings.Builder
			if err := errors.Join(showLease(t.Context(), l, name, "table", &text), showLease(t.Context(), l, name, "json", &raw)); err != nil {
				t.Error(err)
			}
			var got shownLease
			if err := json.Unmarshal([]byte(raw.String()), &got); err != nil || got.Name != name {
				t.Errorf("%s: %s, %v", name, &raw, err)
			}
			_, line, told := strings.Cut(text.String(), "\nlast run: ")
			if told != (want != "") || !strings.Contains(line, want) {
				t.Errorf("%s is shown as\n%s\nwant %q of its last run", name, &text, want)
			}
			switch known := got.LastRun != nil; {
			case name == "none" && (known || got.LastRunError != ""), name == "other" && (known || !strings.Contains(got.LastRunError, want)):
				t.Errorf("%s, which is no job, is shown as %s", name, &raw)
			case name != "none" && name != "other" && (!known || !strings.HasPrefix(line, got.LastRun.String())):
				t.Errorf("%s is shown as %s, and as\n%s", name, &raw, &text)
			}
		}
		return nil
	})
}

// recordless is an engine that keeps no records.
type recordless struct{ tenure.Leaser }

// Of an engine without records nothing is said.
func TestNoRecordsNoLastRun(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	var b strings.Builder
	if err := showLease(t.Context(), recordless{l}, "n", "table", &b); err != nil || strings.Contains(b.String(), "last run") {
		t.Errorf("shown is\n%s, %v", &b, err)
	}
}

// status shows the last runs of periodic jobs, and no other keys.
func TestStatusShowsJobs(t *testing.T) {
	at := "etcd://" + startServer(t)
	code, _, errs := ran(t, "lock", "jobs/nightly", "--every", "1h", "--at", at, "--", "true")
	if code != 0 {
		t.Fatalf("the job ends with %d: %s", code, errs)
	}
	client, err := serverAt(t.Context(), place{url: at})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for key, value := range map[string]string{"vinyl.record": "a single", ".record": `{"started":"2026-01-02T03:04:05Z"}`, "job": `{"started":"2026-01-02T03:04:05Z"}`} {
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := ran(t, "status", "--at", at, "-o", "json")
	var got clusterStatus
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.MoreJobs || len(got.Jobs) != 1 || got.Jobs[0].Name != "jobs/nightly" || got.Jobs[0].LastRun.Ended.IsZero() {
		t.Fatalf("status ends with %d and is %s, %v; want the one job", code, out, err)
	}
	_, out, _ = ran(t, "status", "--at", at)
	if want := "JOB           LAST RUN\njobs/nightly  " + got.Jobs[0].LastRun.String() + "\n"; !strings.HasSuffix(out, want) {
		t.Errorf("status is\n%s\nwant at its end\n%s", out, want)
	}
	if code, out, _ := ran(t, "lease", "show", "jobs/nightly", "--at", at); code != 0 || !strings.HasSuffix(out, "\nlast run: "+got.Jobs[0].LastRun.String()+"\n") {
		t.Errorf("lease show ends with %d and is\n%s", code, out)
	}

	for i := 0; i < jobsShown; i += 50 { // one more than are shown
		var puts []clientv3.Op
		for j := range 50 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("many/%03d.record", i+j), `{"started":"2026-01-02T03:04:05Z"}`))
		}
		if _, err := client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, more, err := askJobs(t.Context(), client); err != nil || !more || len(jobs) != jobsShown {
		t.Errorf("of %d jobs %d are shown, more: %v, %v", jobsShown+1, len(jobs), more, err)
	}
	_, out, _ = ran(t, "status", "--at", at)
	if !strings.HasSuffix(out, "\nThere may be more jobs: tenure lease show NAME shows each.\n") {
		t.Errorf("of more jobs than are shown it says\n%s", out)
	}
}
