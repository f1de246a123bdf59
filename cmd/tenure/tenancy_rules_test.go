package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/file"
)

// told are the events that are printed while something is done.
func told(t *testing.T, ten *tenancy, do func()) (list []event) {
	t.Helper()
	var out bytes.Buffer
	ten.events = newEvents(&out)
	do()
	ten.events.close()
	for line := range bytes.Lines(out.Bytes()) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// A tenure hears all signals that may be meant for its command.
func TestHearsSignals(t *testing.T) {
	all := []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
	all = slices.DeleteFunc(all, signal.Ignored)
	survived := make(chan os.Signal, 1) // this process
	signal.Notify(survived, all...)
	defer signal.Stop(survived)
	ten := fakeTenancy("true")
	ten.catch()
	defer signal.Stop(ten.signals)
	if signal.Ignored(syscall.SIGPIPE) {
		t.Error("a tenure ignores SIGPIPE, and so would its command")
	}
	for _, sig := range all {
		_ = syscall.Kill(os.Getpid(), sig.(syscall.Signal))
		if got := <-survived; got != sig {
			t.Fatalf("this process got %v, want %v", got, sig)
		}
		select {
		case got := <-ten.signals:
			if got != sig {
				t.Errorf("a tenure hears %v, want %v", got, sig)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("a tenure does not hear %v", sig)
		}
	}
}

// The engine chooses how long a lease lasts, unless the command line says so.
func TestClaimsOfCommandLines(t *testing.T) {
	for _, tt := range []struct {
		args       []string
		ttl, delay time.Duration
	}{{nil, 0, 0}, {[]string{"--ttl", "5s", "--lock-delay", "2s"}, 5 * time.Second, 2 * time.Second}} {
		var ten tenancy
		cmd := &cobra.Command{Use: "lock", RunE: ten.complete}
		ten.register(cmd.Flags())
		cmd.SetArgs(append(tt.args, "n", "--", "true"))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		host, _ := os.Hostname()
		if c := ten.claim; c.TTL != tt.ttl || c.LockDelay != tt.delay || c.Name != "n" || c.Holder != fmt.Sprintf("%s:%d", host, os.Getpid()) {
			t.Errorf("%q: the claim is %+v, want a TTL of %v, a delay of %v, and this process", tt.args, c, tt.ttl, tt.delay)
		}
	}
}

// A guard has all of the lease's time, which may be more than was asked for, and its command finds the
// lease in its environment.
func TestGuardOfATenure(t *testing.T) {
	t.Setenv("MARK", "inherited")
	for _, name := range []string{"TENURE_LEASE", "TENURE_TOKEN", "TENURE_AT", "TENURE_LEADER"} {
		t.Setenv(name, "of a tenure around this one")
	}
	for asked, least := range map[time.Duration]time.Duration{0: 59 * time.Second, 2 * time.Second: 59 * time.Second, 2 * time.Minute: 2 * time.Minute} {
		ten := fakeTenancy()
		ten.claim.TTL, ten.at = asked, place{url: "etcd://x"}
		g := ten.guard(&fakeLease{}, "TENURE_LEADER=us")
		if g.ttl < least || g.ttl > max(asked, time.Minute) {
			t.Errorf("asked for %v, and granted a minute: the guard has %v", asked, g.ttl)
		}
		finds := map[string]string{} // of two values a command finds the last
		for _, line := range g.env {
			name, value, _ := strings.Cut(line, "=")
			finds[name] = value
		}
		for name, want := range map[string]string{"TENURE_LEASE": "fake", "TENURE_TOKEN": "1", "TENURE_AT": "etcd://x", "TENURE_LEADER": "us", "MARK": "inherited"} {
			if finds[name] != want {
				t.Errorf("the command finds %s=%s in its environment, want %s", name, finds[name], want)
			}
		}
		if g.events != &ten.events || g.words != os.Stderr || g.signals == nil || g.shell == nil {
			t.Errorf("the guard has other events, words or signals than its tenure, or does not ask for a shell: %+v", g)
		}
	}
}

// The outcome of a tenure is printed in order, and its end shows in the exit code. A command that ran
// under the lease to its end is not blamed for a release that failed, unless the lease was lost.
func TestEndsOfATenure(t *testing.T) {
	odd := errors.New("odd")
	for name, tt := range map[string]struct {
		argv    []string
		check   error // of the lease, after the start
		release error
		code    int // of the command
		exit    int // of an error; 0 if there is none
		says    string
		events  string
	}{
		"a command":                       {argv: []string{"sh", "-c", "exit 3"}, code: 3, events: "acquired exited released"},
		"a release that failed":           {argv: []string{"sh", "-c", "exit 3"}, release: odd, code: 3, events: "acquired exited"},
		"lost at the release":             {argv: []string{"true"}, release: tenure.ErrLost, exit: cli.ExitLost, says: "lease lost", events: "acquired exited"},
		"lost before the release":         {argv: []string{"sh", "-c", "exit 3"}, check: errors.New("gone"), release: odd, code: 3, exit: cli.ExitLost, says: "gone", events: "acquired exited"},
		"lost, and released all the same": {argv: []string{"sh", "-c", "exit 3"}, check: errors.New("gone"), code: 3, exit: cli.ExitLost, says: "gone", events: "acquired exited released"},
		"no command":                      {events: "acquired released"},
		"no command, a release failed":    {release: odd, exit: cli.ExitUnavailable, says: "odd", events: "acquired"},
		"no command, lost at the release": {release: tenure.ErrLost, exit: cli.ExitLost, says: "lease lost", events: "acquired"},
	} {
		ten := fakeTenancy(tt.argv...)
		checks := 0
		lease := &fakeLease{
			check: func() error {
				if checks++; checks > 1 {
					return tt.check
				}
				return nil
			},
			release: func(context.Context) error { return tt.release },
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		var code int
		var err error
		list := told(t, ten, func() { code, err = ten.under(over, lease) })
		var names []string
		for _, e := range list {
			if names = append(names, e.Event); e.Name != "fake" || e.Token != 1 {
				t.Errorf("%s: the event %+v is of another lease", name, e)
			}
			if e.Event == "exited" && (e.Code == nil || *e.Code != tt.code) {
				t.Errorf("%s: the command's end is told as %+v, want the exit code %d", name, e, tt.code)
			}
		}
		if got := strings.Join(names, " "); got != tt.events {
			t.Errorf("%s: the events are %q, want %q", name, got, tt.events)
		}
		var exit cli.ExitError
		if errors.As(err, &exit); code != tt.code || exit.Code != tt.exit || (err == nil) != (tt.exit == 0) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: it ends with %d and %v, exit code %d; want %d, %q and %d", name, code, err, exit.Code, tt.code, tt.says, tt.exit)
		}
	}
}

// A signal while the lease is released gives the server one more second.
func TestASignalLeavesTheReleaseASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ten := fakeTenancy("true")
		begun := time.Now()
		go func() {
			time.Sleep(time.Minute)
			ten.signals <- syscall.SIGTERM
		}()
		err := ten.release(&fakeLease{release: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		if took := time.Since(begun); took != time.Minute+time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("with a signal after a minute the release ends after %v, %v; want a second more", took, err)
		}
		if ten.caught != syscall.SIGTERM {
			t.Errorf("the signal is kept as %v", ten.caught)
		}
	})
}

// A signal that a wait has taken is known when that ends, however soon.
func TestASignalIsKnownWhenAWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ten := fakeTenancy("true")
		ctx, stop := ten.calm(t.Context())
		synctest.Wait()
		ten.signals <- syscall.SIGTERM
		if stop(); ten.caught != syscall.SIGTERM || ctx.Err() == nil {
			t.Errorf("a wait that a signal has ended knows %v, and its context says %v", ten.caught, ctx.Err())
		}
	})
}

// A signal that came too late to end the way to the engine is kept for the next step, once.
func TestASignalThatCameTooLateIsKept(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ten := fakeTenancy("true")
	ten.at, ten.caught = place{url: atLocal}, syscall.SIGTERM
	leaser, err := ten.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leaser.Close()
	defer signal.Stop(ten.signals)
	if len(ten.signals) != 1 || ten.caught != nil {
		t.Fatalf("%d signals are left, and %v is taken for one that ended a wait; want one, and none", len(ten.signals), ten.caught)
	}
	if ten.keep(); len(ten.signals) != 1 {
		t.Errorf("a signal has become %d", len(ten.signals))
	}
}

// watched is a leaser whose lease is held by another.
type watched struct {
	fakeLeaser
	state tenure.State
	err   error
}

func (w watched) Observe(context.Context, string) (tenure.State, error) { return w.state, w.err }

// A tenure tries first. It waits if the lease is held, and names the holder, unless it is to try once.
func TestAdmission(t *testing.T) {
	until := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	state := tenure.State{Holders: []tenure.Holding{{Holder: "alice", Token: 7, Until: until}, {Holder: "bob", Token: 8}}}
	held, odd := tenure.HeldError{Name: "fake"}, errors.New("odd")
	for name, tt := range map[string]struct {
		patience wait
		try      error
		observe  error
		waits    bool
		says     event // "" if nothing
		exit     int
	}{
		"free":                        {},
		"held":                        {try: held, waits: true, says: event{Event: "waiting", Name: "fake", Holder: "alice", Token: 7, Deadline: &until}},
		"held, with a limit":          {patience: wait{time.Minute, true}, try: held, waits: true, says: event{Event: "waiting", Name: "fake", Holder: "alice", Token: 7, Deadline: &until}},
		"held, by whom is not known":  {try: held, observe: odd, waits: true, says: event{Event: "waiting", Name: "fake"}},
		"held, and it tries once":     {patience: wait{0, true}, try: held, exit: cli.ExitNotAcquired},
		"the store fails":             {try: odd, exit: cli.ExitUnavailable},
		"the store fails, tries once": {patience: wait{0, true}, try: odd, exit: cli.ExitUnavailable},
	} {
		ten, waits := fakeTenancy("true"), false
		var lease tenure.Lease
		var err error
		list := told(t, ten, func() {
			lease, err = ten.acquire(t.Context(), watched{fakeLeaser{
				try: func(context.Context) (tenure.Lease, error) {
					if tt.try != nil {
						return nil, tt.try
					}
					return &fakeLease{}, nil
				},
				wait: func(context.Context) (tenure.Lease, error) { waits = true; return &fakeLease{}, nil },
			}, state, tt.observe}, tt.patience)
		})
		if waits != tt.waits {
			t.Errorf("%s: it waits: %v, want %v", name, waits, tt.waits)
		}
		if tt.exit != 0 {
			wantExit(t, err, tt.exit)
		} else if err != nil || lease == nil {
			t.Errorf("%s: lease %v, %v", name, lease, err)
		}
		want := []event{tt.says}
		if tt.says.Event == "" {
			want = nil
		}
		same := func(a, b event) bool {
			return a.Event == b.Event && a.Name == b.Name && a.Holder == b.Holder && a.Token == b.Token && (a.Deadline == nil) == (b.Deadline == nil) && (a.Deadline == nil || a.Deadline.Equal(*b.Deadline))
		}
		if !slices.EqualFunc(list, want, same) {
			t.Errorf("%s: told is %+v, want %+v", name, list, want)
		}
	}
}

// A command and all that it starts are a part of the holder. A program that only reads our lines hears of our
// end later than others on this machine may: they wait.
func TestHolderOfATenancy(t *testing.T) {
	if got := (&tenancy{argv: []string{"true"}}).holder(); got != file.Family {
		t.Errorf("with a command the holder is %v, want %v", got, file.Family)
	}
	if got := (&tenancy{}).holder(); got != file.Stranger {
		t.Errorf("without a command the holder is %v, want %v", got, file.Stranger)
	}
}

// The end of a command is for the record of its run, with its exit code or why it has not run, and an error of that is told.
func TestTheEndOfACommandIsRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		argv []string
		code int
		exit int // of the error; 0: none
	}{"it fails": {[]string{"sh", "-c", "exit 3"}, 3, 0}, "it ends well": {[]string{"true"}, 0, 0}, "it cannot run": {[]string{"/no/such/command"}, 0, cli.ExitNotFound}} {
		ten, calls := fakeTenancy(tt.argv...), 0
		held := true
		lease := &fakeLease{release: func(context.Context) error { held = false; return nil }}
		ten.ended = func(l tenure.Lease, code int, err error) error {
			var exit cli.ExitError
			errors.As(err, &exit)
			if calls++; l != lease || code != tt.code || exit.Code != tt.exit || !held {
				t.Errorf("%s: recorded is %d, %v of %v, held: %v; want %d, with an error of the code %d, while it is held", name, code, err, l, held, tt.code, tt.exit)
			}
			return nil
		}
		code, err := ten.under(t.Context(), lease)
		var exit cli.ExitError
		if errors.As(err, &exit); code != tt.code || exit.Code != tt.exit || calls != 1 {
			t.Errorf("%s: it ends with %d, %v, recorded %d times; want %d, once", name, code, err, calls, tt.code)
		}
	}
}
