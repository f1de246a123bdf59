package readtorture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run this seed only")
	from     = flag.Uint64("from", 1, "first seed of a long run")
	seeds    = flag.Int("seeds", 20, "seeds to run without -short")
	plain    = flag.Bool("plain", false, "without -short, too: members as they are shipped, whose clocks, disks and readers are left alone")
	timeFlag = flag.Duration("time", 0, "time of attacks a seed; 0 is 5s with -short, else 60s")
	policies = flag.String("policies", "", "policies, which take turns if there are several, separated by commas, instead of the seed's")
	kept     = flag.String("history", "", "judge this file, which a run has kept, instead of a run")
	members  = flag.Int("members", 0, "number of members, instead of the seed's")
)

func TestReadTorture(t *testing.T) {
	if !server.Has(server.Tenure) {
		t.Skip("etcd has no read leases")
	}
	if *kept != "" {
		out, err := Rejudge(*kept)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(out)
		report(t, out.Violations)
		return
	}
	var run []uint64
	for i := range *seeds {
		run = append(run, *from+uint64(i))
	}
	span, program := time.Minute, ""
	if testing.Short() {
		// Three members with policies of both orders by turns, five with cells given by hand.
		run, span = []uint64{6, 13}, 5*time.Second
	} else if !*plain {
		var err error
		if program, err = Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if *seedFlag > 0 {
		run = []uint64{*seedFlag}
	}
	if *timeFlag > 0 {
		span = *timeFlag
	}
	for _, seed := range run {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := NewPlan(seed, *policies, *members, span)
			p.Binary, p.Hooked = program, program != ""
			torture(t, p)
		})
	}
}

func torture(t *testing.T, p Plan) {
	dir, err := os.MkdirTemp("", "readtorture")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*p.Time+15*time.Minute)
	defer cancel()
	out, err := Run(ctx, p, dir, func(line string) { t.Log(line) })
	t.Logf("%d members, policies %v: %v", p.Members, p.Policies, out)
	report(t, out.Violations)
	if err != nil {
		t.Error(err)
	}
	switch {
	case out.Operations-out.Unknown < 100 || out.Events < 50:
		t.Error("too little happened to say anything")
	case p.leases() && out.Reads.all().Local == 0:
		t.Error("no read was answered under a lease")
	case p.divides() && p.Time >= 30*time.Second && (out.Reads.Divisions < 5 || out.Reads.all().Part == 0):
		t.Error("no read was answered under a lease where keys are divided, or they were not divided anew")
	}
	if t.Failed() {
		t.Logf("logs, data and, if it was judged, the history are in %s; again with -seed=%d -time=%v -policies=%q -members=%d:\n%v",
			dir, p.Seed, p.Time, *policies, *members, p)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// report shows the first violations.
func report(t *testing.T, violations []error) {
	for i, v := range violations {
		if i == 20 {
			t.Errorf("and %d more", len(violations)-i)
			break
		}
		t.Error(v)
	}
}
