package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/leasetest"
)

// A run in the future keeps all others from running until it is forgotten. One that is under way is not
// forgotten, nor is a record that no Periodic has written.
func TestForgetsTheLastRun(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	reset := func(l tenure.Leaser, name string, o cli.Output) (string, int) {
		var b strings.Builder
		err := resetRun(t.Context(), l, name, o, &b)
		if err != nil {
			b.WriteString(err.Error())
		}
		var exit cli.ExitError
		if errors.As(err, &exit); err != nil && exit.Code == 0 {
			t.Errorf("%s: %v has no exit code", name, err)
		}
		return b.String(), exit.Code
	}
	leave := func(name, record string) {
		if err := tenure.Do(t.Context(), l, tenure.Claim{Name: name}, func(ctx context.Context, held tenure.Lease) error {
			return l.(tenure.Recorder).SetRecord(ctx, held, []byte(record))
		}); err != nil {
			t.Fatal(err)
		}
	}
	future := `{"holder":"a","token":1,"started":"` + time.Now().Add(time.Hour).Format(time.RFC3339Nano) + `"}`
	leave("job", future)
	leave("json", future)
	leave("other", "odd")
	job := tenure.Periodic{Leaser: l, Claim: tenure.Claim{Name: "job"}, Every: time.Hour}
	ran := 0
	run := func(context.Context, tenure.Lease) error {
		ran++
		if said, code := reset(l, "job", "table"); ran == 1 && (code != cli.ExitNotAcquired || !strings.Contains(said, "held by")) {
			t.Errorf("a run that is under way is forgotten: %s, exit code %d", said, code)
		}
		return nil
	}
	if err := job.Do(t.Context(), run); !errors.Is(err, tenure.ErrClock) || !strings.Contains(err.Error(), "tenure lease reset job") {
		t.Errorf("with a run in the future: %v, want %q and what helps", err, tenure.ErrClock)
	}
	if said, code := reset(l, "job", "table"); code != 0 || !strings.HasPrefix(said, `forgot the last run of "job": begun at `) {
		t.Errorf("it says %q, exit code %d", said, code)
	}
	if err := job.Do(t.Context(), run); err != nil || ran != 1 {
		t.Errorf("after the run was forgotten the work has run %d times, %v, want once", ran, err)
	}
	if err := job.Due(t.Context()); !errors.Is(err, tenure.ErrDone) {
		t.Errorf("after the run: %v, want %q", err, tenure.ErrDone)
	}
	for _, tt := range []struct {
		name string
		l    tenure.Leaser
		o    cli.Output
		code int
		says string
	}{
		{"json", l, "json", 0, `"holder": "a"`},
		{"json", l, "json", 0, `"forgotten": null`},
		{"none", l, "table", 0, `"none" has no run`},
		{"other", l, "table", cli.ExitUsage, "no Periodic has written"},
		{"job", recordless{l}, "table", cli.ExitUsage, "keeps no records"},
	} {
		if said, code := reset(tt.l, tt.name, tt.o); code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%s: it says %q, exit code %d; want %q and %d", tt.name, said, code, tt.says, tt.code)
		}
	}
}

// The command does so in a store.
func TestResetCommand(t *testing.T) {
	at := "file://" + t.TempDir()
	if out, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "400ms"); err != nil { // however busy the machine is
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		args string
		code int
		out  string
	}{
		{"lock n --every 1h --at " + at + " -- echo first", 0, "first"},
		{"lock n --every 1h --at " + at + " -- echo no", cli.ExitDone, ""},
		{"lease reset n --at " + at, 0, `forgot the last run of "n"`},
		{"lock n --every 1h --at " + at + " -- echo again", 0, "again"},
	} {
		code, out, errs := ran(t, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out, tt.out) || strings.Contains(out, "no\n") {
			t.Errorf("%s: exit code %d, %q, %s; want %d and %q", tt.args, code, out, errs, tt.code, tt.out)
		}
	}
}

// overtaken is a Leaser that does something before it gives a lease, and as it takes a record.
type overtaken struct {
	tenure.Leaser
	before, as func()
}

func (o overtaken) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	o.before()
	return o.Leaser.TryAcquire(ctx, c)
}

func (o overtaken) Record(ctx context.Context, name string) ([]byte, error) {
	return o.Leaser.(tenure.Recorder).Record(ctx, name)
}

func (o overtaken) SetRecord(ctx context.Context, l tenure.Lease, record []byte) error {
	defer o.as()
	return o.Leaser.(tenure.Recorder).SetRecord(ctx, l, record)
}

// The run that is forgotten is the last one, though it began after the first look. A signal that comes then leaves no lease behind.
func TestForgetsARunThatCameBetween(t *testing.T) {
	memory := leasetest.NewMemory()
	l, next := memory.Open(), memory.Open()
	defer l.Close()
	defer next.Close()
	host := ""
	nightly := func() {
		work := tenure.Periodic{Leaser: next, Claim: tenure.Claim{Name: "n", Holder: host}, Every: 1}
		if err := work.Do(t.Context(), func(context.Context, tenure.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	host = "the first"
	nightly()
	host = "the second"
	ctx, cancel := context.WithCancel(t.Context())
	run, err := forgetRun(ctx, overtaken{l, nightly, cancel}, "n")
	if err != nil || run.Holder != host {
		t.Errorf("another run came between, and forgotten is %+v, %v; want the second", run, err)
	}
	if _, err := next.TryAcquire(t.Context(), tenure.Claim{Name: "n"}); err != nil {
		t.Errorf("a signal has ended a command that forgets a run, and the lease is not free: %v", err)
	}
}
