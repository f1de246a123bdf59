package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// fakeLease is held for a minute.
type fakeLease struct {
	tenure.Lease // of which nothing more is needed
	check        func() error
	release      func(context.Context) error
	left         time.Duration // until the deadline; 0: a minute
}

func (f *fakeLease) Name() string          { return "fake" }
func (f *fakeLease) Holder() string        { return "test" }
func (f *fakeLease) Token() uint64         { return 1 }
func (f *fakeLease) Done() <-chan struct{} { return nil }
func (f *fakeLease) Err() error            { return nil }
func (f *fakeLease) Deadline() time.Time {
	return time.Now().Add(cmp.Or(f.left, time.Minute))
}

func (f *fakeLease) Check() error {
	if f.check != nil {
		return f.check()
	}
	return nil
}

func (f *fakeLease) Release(ctx context.Context) error {
	if f.release != nil {
		return f.release(ctx)
	}
	return nil
}

// fakeLeaser acquires as the test says.
type fakeLeaser struct {
	tenure.Leaser
	try, wait func(context.Context) (tenure.Lease, error)
}

func (f fakeLeaser) TryAcquire(ctx context.Context, _ tenure.Claim) (tenure.Lease, error) {
	return f.try(ctx)
}

func (f fakeLeaser) Acquire(ctx context.Context, _ tenure.Claim) (tenure.Lease, error) {
	return f.wait(ctx)
}

func fakeTenancy(argv ...string) *tenancy {
	return &tenancy{
		claim: tenure.Claim{Name: "fake", TTL: time.Minute}, argv: argv,
		signals: make(chan os.Signal, 16),
	}
}

// TestSignalWhileAcquiring: a signal that comes too late to end the wait ends the command,
// whatever part has taken it by then.
func TestSignalWhileAcquiring(t *testing.T) {
	for what, heard := range map[string]bool{"heard by the wait": true, "in the queue": false} {
		t.Run(what, func(t *testing.T) {
			ten := fakeTenancy("sleep", "60")
			lease, err := ten.acquire(t.Context(), fakeLeaser{try: func(ctx context.Context) (tenure.Lease, error) {
				if heard {
					ten.signals <- syscall.SIGTERM
					<-ctx.Done() // and the server says yes all the same
				}
				return &fakeLease{}, nil
			}}, wait{})
			if err != nil {
				t.Fatal(err)
			}
			if !heard {
				ten.signals <- syscall.SIGTERM
			}
			code, err := ten.under(t.Context(), lease)
			if want := cli.ExitSignal + int(syscall.SIGTERM); code != want || err != nil {
				t.Errorf("the command ends with %d, %v; want %d", code, err, want)
			}
		})
	}
}

// TestSignalEndsWaiting: with a shell's exit code for it.
func TestSignalEndsWaiting(t *testing.T) {
	ten := fakeTenancy("true")
	_, err := ten.acquire(t.Context(), fakeLeaser{
		try: func(context.Context) (tenure.Lease, error) { return nil, tenure.HeldError{Name: "fake"} },
		wait: func(ctx context.Context) (tenure.Lease, error) {
			ten.signals <- syscall.SIGINT
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}, wait{})
	if wantExit(t, err, cli.ExitSignal+int(syscall.SIGINT)); err == nil || err.Error() != `stopped waiting for "fake": interrupt` {
		t.Errorf("an interrupt ends the wait: %v, want what it ended", err)
	}
}

// TestSignalWhileReleasing: it ends the wait for a server that is silent, and the next
// wait of elect.
func TestSignalWhileReleasing(t *testing.T) {
	ten := fakeTenancy("true")
	code, err := ten.under(t.Context(), &fakeLease{release: func(ctx context.Context) error {
		ten.signals <- syscall.SIGTERM
		select {
		case <-ctx.Done():
			return fmt.Errorf("not confirmed: %w", ctx.Err())
		case <-time.After(20 * time.Second):
			t.Error("a signal does not end the wait for the release")
			return nil
		}
	}})
	if code != 0 || err != nil {
		t.Errorf("got %d, %v; want the command's 0: it ran under the lease to its end", code, err)
	}
	ten.keep()
	_, err = ten.acquire(t.Context(), fakeLeaser{try: func(ctx context.Context) (tenure.Lease, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, wait{})
	wantExit(t, err, cli.ExitSignal+int(syscall.SIGTERM))
}

// TestGoneBeforeRelease: nothing of the command's group is left when the lease is released,
// though some of it pays no heed to SIGTERM, or is stopped.
func TestGoneBeforeRelease(t *testing.T) {
	for what, leftover := range map[string]string{
		"gentle":   `sleep 60 & echo $! >child`,
		"stubborn": `sh -c 'trap "" TERM; echo $$ >child; while :; do sleep 1; done' & while ! test -s child; do sleep 0.01; done`,
		"stopped":  `sleep 60 & echo $! >child; kill -STOP $!`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			released := false
			ten := fakeTenancy("sh", "-c", `echo $$ >group; `+leftover)
			ten.claim.TTL = 4 * time.Second
			code, err := ten.under(t.Context(), &nearLease{fakeLease{release: func(context.Context) error {
				released = true
				if group := readID(t, "group"); (kernel{}).alive(group) {
					t.Errorf("some of group %d is alive at the release", group)
				}
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", readID(t, "child")))
				if err == nil && !strings.Contains(string(stat), ") Z ") {
					t.Errorf("the child is alive at the release: %s", stat)
				}
				return nil
			}}})
			if code != 0 || err != nil || !released {
				t.Errorf("got %d, %v, released: %v", code, err, released)
			}
		})
	}
}

// nearLease is held for four seconds from whenever one asks.
type nearLease struct{ fakeLease }

func (f *nearLease) Deadline() time.Time { return time.Now().Add(4 * time.Second) }

func readID(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestTenuresLeaveNothingOpen: elect may run its command again and again.
func TestTenuresLeaveNothingOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes forgotten descriptors
	open := func() int {
		files, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(files)
	}
	tenures := func(n int, what string, argv ...string) {
		t.Helper()
		_, _ = fakeTenancy(argv...).under(t.Context(), &fakeLease{}) // the first opens what stays
		before := open()
		for range n {
			_, _ = fakeTenancy(argv...).under(t.Context(), &fakeLease{})
		}
		if after := open(); after >= before+n {
			t.Errorf("%s: %d descriptors are open, and %d after %d tenures", what, before, after, n)
		}
	}
	tenures(10, "a command that runs", "true")
	tenures(10, "one that cannot be found", "no/such/command")
	tenures(10, "one that cannot be run", t.TempDir())
	_ = controlled()
	before := open()
	for range 10 {
		_ = controlled()
	}
	if after := open(); after >= before+10 {
		t.Errorf("%d descriptors are open, and %d after 10 questions whether there is a shell", before, after)
	}
}

// TestNothingStartsLate: a lease that has ended by the time when the command would start, or that is about to.
func TestNothingStartsLate(t *testing.T) {
	for name, lease := range map[string]*fakeLease{
		"lost":                   {check: func() error { return tenure.ErrLost }},
		"ends after two seconds": {left: 2 * time.Second}, // a twentieth of the TTL before the deadline it is killed
	} {
		mark := filepath.Join(t.TempDir(), "mark")
		ten := fakeTenancy("touch", mark)
		_, err := ten.under(t.Context(), lease)
		wantExit(t, err, cli.ExitLost)
		if err == nil || !strings.Contains(err.Error(), "did not run the command") || lease.check != nil && !errors.Is(err, tenure.ErrLost) {
			t.Errorf("%s: got %v, want that the command did not run", name, err)
		}
		if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the command ran: %v", name, err)
		}
	}
}

// A command may start until it would have to be killed at once, though it would be asked to end at once.
func TestWhenACommandMayStart(t *testing.T) {
	for left, want := range map[time.Duration]bool{time.Second: false, 2900 * time.Millisecond: false, 5 * time.Second: true, 14 * time.Second: true, time.Minute: true} {
		g := guard{lease: &fakeLease{left: left}, ttl: time.Minute}
		if err := g.may(); (err == nil) != want {
			t.Errorf("%v before the deadline, of a minute, a command may start: %v, want %v", left, err, want)
		}
	}
}

// TestLastMoment: the lease is checked after all that takes time to prepare.
func TestLastMoment(t *testing.T) {
	objection := errors.New("objection")
	children := func() (all string) {
		files, _ := filepath.Glob("/proc/self/task/*/children")
		if len(files) == 0 {
			t.Skip("this kernel does not tell")
		}
		for _, file := range files {
			b, _ := os.ReadFile(file) // a thread may have ended
			all += string(b)
		}
		return all
	}
	before := children()
	_, err := startGroup([]string{"true"}, nil, func(*shepherd) {}, func() error {
		if children() == before {
			t.Error("asked before the shepherd was there")
		}
		return objection
	})
	if err != objection {
		t.Errorf("got %v, want %v", err, objection)
	}
	if after := children(); after != before {
		t.Errorf("children %q remain, want %q", after, before)
	}
}

// TestWaitBoundsTheServer: --wait is how long to wait for the lease, and for a server that does not
// answer.
func TestWaitBoundsTheServer(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // the engine gives up by itself after 5
	defer cancel()
	ten := &tenancy{claim: tenure.Claim{Name: "n"}, at: place{url: "redis://" + deaf.Addr().String()}, argv: []string{"true"}}
	err = lock(ctx, ten, &every{}, wait{50 * time.Millisecond, true})
	wantExit(t, err, cli.ExitUnavailable)
	if ctx.Err() != nil {
		t.Errorf("it waits for the server for longer than --wait: %v", err)
	}
}

// TestWaitBoundsTheLease: --wait is how long to wait for a lease that another holds.
func TestWaitBoundsTheLease(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	other, err := openAt(t.Context(), place{url: atLocal})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Acquire(t.Context(), tenure.Claim{Name: "n"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, limit := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		err = lock(ctx, &tenancy{claim: tenure.Claim{Name: "n"}, at: place{url: atLocal}, argv: []string{"true"}}, &every{}, wait{limit, true})
		if !errors.Is(err, tenure.ErrUnavailable) { // the disk has not answered in time
			break
		}
	}
	wantExit(t, err, cli.ExitNotAcquired)
	if ctx.Err() != nil {
		t.Errorf("it waits for the lease for longer than --wait: %v", err)
	}
}

// TestCommandsThatCannotRun: they have a shell's exit codes.
func TestCommandsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("no program"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]int{
		filepath.Join(dir, "none"): cli.ExitNotFound, "no-such-command": cli.ExitNotFound,
		file("text", 0o600): cli.ExitCannotRun, file("garbage", 0o700): cli.ExitCannotRun,
	} {
		_, err := fakeTenancy(path).under(t.Context(), &fakeLease{})
		wantExit(t, err, want)
	}
}

// TestElectCampaignsAgain: elect campaigns again when leadership is lost, but not if it is to do so once,
// was told to end, or cannot run its command.
func TestElectCampaignsAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		argv       []string
		once, told bool
		want       int
	}{
		"lost":          {[]string{"true"}, false, false, cli.ExitUnavailable},
		"once":          {[]string{"true"}, true, false, cli.ExitLost},
		"told to end":   {[]string{"sleep", "60"}, false, true, cli.ExitLost},
		"of no command": {[]string{"/no/such/command"}, false, false, cli.ExitNotFound},
	} {
		ten := fakeTenancy(tt.argv...)
		campaigns, checks := 0, 0
		err := ten.lead(t.Context(), fakeLeaser{try: func(context.Context) (tenure.Lease, error) {
			if campaigns++; campaigns > 1 {
				return nil, tenure.ErrUnavailable
			}
			return &fakeLease{check: func() error {
				if checks++; checks > 1 {
					return tenure.ErrLost
				}
				if tt.told {
					ten.signals <- syscall.SIGTERM
				}
				return nil
			}}, nil
		}}, tt.once)
		if wantExit(t, err, tt.want); t.Failed() {
			t.Fatalf("leadership is %s: it campaigned %d times", name, campaigns)
		}
	}
}

func TestRefusals(t *testing.T) {
	held := tenure.HeldError{Name: "n", Holder: "alice"}
	late := fmt.Errorf("%w: %w", tenure.ErrUnavailable, context.DeadlineExceeded)
	for _, c := range []struct {
		err  error
		want int
		says string
	}{
		{held, cli.ExitNotAcquired, held.Error()},
		{fmt.Errorf("%w: %w", held, context.DeadlineExceeded), cli.ExitNotAcquired, "gave up waiting: " + held.Error()},
		{fmt.Errorf("free by now: %w", context.DeadlineExceeded), cli.ExitNotAcquired, "gave up waiting: others were quicker"},
		{late, cli.ExitUnavailable, late.Error()},
		{tenure.ErrUnavailable, cli.ExitUnavailable, tenure.ErrUnavailable.Error()},
		{errors.New("etcdserver: permission denied"), cli.ExitUnavailable, "etcdserver: permission denied"},
		{fmt.Errorf("%w: no", tenure.ErrClaim), cli.ExitUsage, tenure.ErrClaim.Error() + ": no"},
		{tenure.ErrTTLTooShort, cli.ExitUsage, tenure.ErrTTLTooShort.Error()},
	} {
		got := refusal(c.err)
		if wantExit(t, got, c.want); got.Error() != c.says {
			t.Errorf("%v is told as %q, want %q", c.err, got, c.says)
		}
	}
}

func wantExit(t *testing.T, err error, code int) {
	t.Helper()
	var exit cli.ExitError
	if !errors.As(err, &exit) || exit.Code != code {
		t.Errorf("got exit code %d of %v, want %d", exit.Code, err, code)
	}
}
