package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// statusJob is a periodic job (lock --every) in `tenure status`.
type statusJob struct {
	Name    string     `json:"name"`
	LastRun tenure.Run `json:"last_run"`
}

const (
	// jobKeys is among how many keys of the server status looks for records of jobs. They are among all
	// other keys, and a status must not read a large store.
	jobKeys = 10_000
	// jobsShown is how many jobs status shows at most: as many as one transaction may read.
	jobsShown = 100
)

// askJobs returns the periodic jobs whose records are among the first keys, as the member that answers knows
// them. more reports whether there may be others.
func askJobs(ctx context.Context, client *clientv3.Client) (jobs []statusJob, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	keys, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(jobKeys), clientv3.WithSerializable())
	if err != nil {
		return nil, false, err
	}
	more = keys.More
	var reads []clientv3.Op
	for _, kv := range keys.Kvs {
		if _, ok := etcd.RecordOf(string(kv.Key)); !ok {
			continue
		}
		if len(reads) == jobsShown {
			more = true
			break
		}
		reads = append(reads, clientv3.OpGet(string(kv.Key), clientv3.WithSerializable()))
	}
	if len(reads) == 0 {
		return nil, more, nil
	}
	got, err := client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, false, err
	}
	for _, r := range got.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			var run tenure.Run
			name, _ := etcd.RecordOf(string(kv.Key))
			if json.Unmarshal(kv.Value, &run) == nil && !run.Started.IsZero() { // else it is no job's
				jobs = append(jobs, statusJob{name, run})
			}
		}
	}
	return jobs, more, nil
}

// addJobs adds the jobs that were found. That there may be more is of interest only where there are some.
func (s *clusterStatus) addJobs(jobs []statusJob, more bool) {
	s.Jobs, s.MoreJobs = jobs, more && len(jobs) > 0
}

func (s clusterStatus) jobTable(w io.Writer) {
	if len(s.Jobs) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "JOB\tLAST RUN")
		for _, j := range s.Jobs {
			fmt.Fprintf(tw, "%s\t%s\n", j.Name, j.LastRun)
		}
		tw.Flush()
		if s.MoreJobs {
			fmt.Fprintln(w, "There may be more jobs: tenure lease show NAME shows each.")
		}
	}
}
