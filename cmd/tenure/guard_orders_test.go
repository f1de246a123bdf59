package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// written keeps the orders to a shepherd.
type written struct{ bytes.Buffer }

func (*written) Close() error                     { return nil }
func (*written) SetWriteDeadline(time.Time) error { return nil }

func (w *written) lines() []string { return strings.Split(strings.TrimSpace(w.String()), "\n") }

// ending is a lease with a deadline, which has ended if there is an error.
type ending struct {
	fading
	at  time.Time
	err error
}

func (e *ending) Deadline() time.Time { return e.at }
func (e *ending) Check() error        { return e.err }

// nobody is a process group that has ended.
type nobody struct{}

func (nobody) kill(int, syscall.Signal) {}
func (nobody) alive(int) bool           { return false }

// A guard that did not run until the deadline that it had told knows that the shepherd may have
// killed the command.
func TestTellsThatItIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type step struct {
			after time.Duration
			late  bool
		}
		for _, steps := range [][]step{
			{{0, false}, {5 * time.Second, false}, {time.Minute, true}, {0, true}},
			{{0, false}, {9*time.Second - 1, false}}, // a second before the deadline of ten the command is killed
			{{0, false}, {9 * time.Second, true}},
		} {
			fake := &clock.Fake{}
			lease := &ending{}
			g := guard{lease: lease, clock: fake, ttl: 20 * time.Second}
			s := &shepherd{pipe: &written{}}
			for i, step := range steps {
				fake.Advance(step.after)
				lease.at = time.Now().Add(10 * time.Second)
				if g.tell(s); s.late != step.late {
					t.Errorf("after %v, step %d: the shepherd may have killed: %v, want %v", steps, i, s.late, step.late)
				}
			}
		}
	})
}

// The guard sends the shepherd a time to kill if it has moved by more than a millisecond, in either
// direction: a suspend moves a deadline nearer. It repeats a message that could not be sent.
func TestTellsEachTimeThatMoves(t *testing.T) {
	const ms = int64(time.Millisecond)
	pipe := &written{}
	s := &shepherd{pipe: pipe}
	for _, at := range []int64{100 * ms, 100*ms + 1, 101 * ms, 101*ms + 1, 50 * ms, 49 * ms, 48 * ms} {
		s.until(machine.Mono(at))
	}
	want := []string{"until 100000000", "until 101000001", "until 50000000", "until 48000000"}
	if !slices.Equal(pipe.lines(), want) {
		t.Errorf("the shepherd is told %q, want %q", pipe.lines(), want)
	}
}

// full is a pipe that has no room for some writes, each of which has a time limit.
type full struct {
	heard   string
	times   int // how often there is no room
	limited int // writes with a limit
	tries   int
}

func (f *full) SetWriteDeadline(at time.Time) error {
	if left := time.Until(at); left > 0 && left <= 10*time.Millisecond {
		f.limited++
	}
	return nil
}

func (f *full) Write(p []byte) (int, error) {
	if f.tries++; f.tries <= f.times {
		return 0, os.ErrDeadlineExceeded
	}
	f.heard += string(p)
	return len(p), nil
}

func (*full) Close() error { return nil }

// An order is tried three times, each with a limit: a guard that was stopped during a try has another, and
// a shepherd that is stopped keeps no guard.
func TestAnOrderHasThreeTries(t *testing.T) {
	for times, told := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		synctest.Test(t, func(t *testing.T) {
			pipe := &full{times: times}
			s := &shepherd{pipe: pipe}
			s.until(7_000_000)
			if (s.told == 7_000_000) != told || (pipe.heard == "until 7000000\n") != told || pipe.tries != min(times+1, 3) || pipe.limited != pipe.tries {
				t.Errorf("a pipe without room for %d tries: the shepherd is taken for told of %d and has heard %q, in %d tries, %d with a limit; want it told: %v", times, s.told, pipe.heard, pipe.tries, pipe.limited, told)
			}
		})
	}
}

// stopping is a lease that is asked for its deadline by a guard which is stopped just before.
type stopping struct {
	fading
	stop func()
}

func (s *stopping) Deadline() time.Time { s.stop(); return time.Now().Add(10 * time.Second) }

// A guard that is stopped while it works out when the command is to be killed tells a time that is too early, and not too late.
func TestAStoppedGuardTellsTooEarlyATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &clock.Fake{}
		pipe := &written{}
		g := guard{lease: &stopping{stop: func() { fake.Advance(5 * time.Second) }}, clock: fake, ttl: 20 * time.Second}
		g.tell(&shepherd{pipe: pipe})
		if want := []string{fmt.Sprintf("until %d", 9*time.Second)}; !slices.Equal(pipe.lines(), want) {
			t.Errorf("stopped for five seconds, a guard tells %q, want %q: by the clock that it read before", pipe.lines(), want)
		}
	})
}

// The shepherd knows the deadline before the command starts, and the group afterwards.
func TestLaunchTellsTheShepherd(t *testing.T) {
	pipe := &written{}
	g := &group{shepherd: &shepherd{pipe: pipe}}
	tell := func(s *shepherd) { s.until(1e12) }
	start := func() (int, error) {
		if got, want := pipe.lines(), []string{"until 1000000000000"}; !slices.Equal(got, want) {
			t.Errorf("the shepherd has heard %q when the command starts, want %q", got, want)
		}
		return 4711, nil
	}
	err := g.launch(tell, func() error { return nil }, start)
	if got, want := pipe.lines(), []string{"until 1000000000000", "group 4711"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the shepherd has heard %q, want %q; %v", got, want, err)
	}
	no := errors.New("the lease has ended")
	err = g.launch(tell, func() error { return no }, func() (int, error) { return 0, fmt.Errorf("it was started") })
	if !errors.Is(err, no) {
		t.Errorf("without a lease: %v, want %v", err, no)
	}
}

// A lease that was lost while the command's leftovers were being ended is a failure, though the
// command had not been stopped.
func TestALossAtTheEndIsTold(t *testing.T) {
	for name, lost := range map[string]error{"held to the end": nil, "lost": tenure.ErrLost} {
		exited := make(chan int, 1)
		exited <- 0
		g := guard{lease: &ending{at: time.Now().Add(time.Hour), err: lost}, clock: clock.System, ttl: time.Hour, events: &events{}}
		code, err := g.tend(&group{processes: nobody{}, shepherd: unheard(t), clock: clock.System, exited: exited})
		var exit cli.ExitError
		if code != 0 || (lost != nil) != (errors.As(err, &exit) && exit.Code == cli.ExitLost) {
			t.Errorf("%s: exit code %d, %v", name, code, err)
		}
		if want := `lost the lease on "fading", stopped the command: ` + tenure.ErrLost.Error(); lost != nil && err.Error() != want {
			t.Errorf("%s: told is %q, want %q", name, err, want)
		}
	}
}

// stuck is a process group that waits for a disk: it lives on when it has been killed, until a time.
type stuck struct{ until time.Time }

func (*stuck) kill(int, syscall.Signal) {}
func (s *stuck) alive(int) bool         { return time.Now().Before(s.until) }

// expiring is a lease that is renewed until a time, and lost then.
type expiring struct {
	fading
	until  time.Time
	checks int
}

func (e *expiring) Deadline() time.Time {
	return slices.MinFunc([]time.Time{e.until, time.Now().Add(10 * time.Second)}, time.Time.Compare)
}

func (e *expiring) Check() error {
	// A guard that asks again and again lets no time pass in a bubble: it would do so for ever.
	if e.checks++; time.Now().Before(e.until) && e.checks < 10_000 {
		return nil
	}
	return tenure.ErrLost
}

// The lease is kept while processes live that were killed, and the operator is told, once: the guard
// waits for no reader. The shepherd knows of the renewals meanwhile.
func TestKeepsTheLeaseWhileTheKilledLive(t *testing.T) {
	for _, tt := range []struct {
		name              string
		lives, held, want time.Duration
	}{
		{"they end while it is held", time.Minute, time.Hour, time.Minute},
		{"it is lost", time.Hour, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			read, words := io.Pipe()
			heard := make(chan string)
			go func() {
				time.Sleep(5 * time.Minute) // longer than all of this takes
				all := bufio.NewReader(read)
				line, _ := all.ReadString('\n')
				heard <- line
				_, _ = io.Copy(io.Discard, all)
			}()
			exited := make(chan int, 1)
			exited <- 0
			pipe := &written{}
			system := clock.NewSimulated(0)
			ten := fakeTenancy()
			var err error
			events := told(t, ten, func() {
				g := guard{lease: &expiring{until: begun.Add(tt.held)}, clock: system, ttl: 10 * time.Second, events: &ten.events, words: words}
				_, err = g.tend(&group{processes: &stuck{begun.Add(tt.lives)}, shepherd: &shepherd{pipe: pipe, gone: func() error { return nil }}, clock: system, exited: exited})
			})
			if len(events) != 2 || events[0].Event != "lingering" || events[1].Event != "exited" {
				t.Errorf("%s: the events are %+v, want that processes linger, once, and the end", tt.name, events)
			}
			if took := time.Since(begun); took < tt.want || took > tt.want+time.Second {
				t.Errorf("%s: the guard is done after %v, want %v", tt.name, took, tt.want)
			}
			var exit cli.ExitError
			if lost := errors.As(err, &exit) && exit.Code == cli.ExitLost; lost != (tt.held < tt.lives) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if line := <-heard; !strings.Contains(line, "live on though they were killed") || !strings.Contains(line, fmt.Sprintf(`the lease on "fading" until they have ended (kill process %d to let it run out)`, os.Getpid())) {
				t.Errorf("%s: the operator is told %q", tt.name, line)
			}
			if told := len(pipe.lines()); told < 50 {
				t.Errorf("%s: the shepherd was told %d times in a minute, want of each renewal", tt.name, told)
			}
			_ = words.Close()
		})
	}
}

// deaf is a process group that nothing but SIGKILL ends.
type deaf struct{ killed time.Time }

func (d *deaf) kill(_ int, sig syscall.Signal) {
	if sig == syscall.SIGKILL && d.killed.IsZero() {
		d.killed = time.Now()
	}
}
func (d *deaf) alive(int) bool { return d.killed.IsZero() }

// revoked is a lease that an operator ends at a time, long before its deadline.
type revoked struct {
	fading
	gone chan struct{}
}

func (r *revoked) Deadline() time.Time   { return time.Now().Add(10 * time.Second) }
func (r *revoked) Done() <-chan struct{} { return r.gone }
func (r *revoked) Err() error            { return tenure.ErrLost }
func (r *revoked) Check() error {
	select {
	case <-r.gone:
		return tenure.ErrLost
	default:
		return nil
	}
}

// Processes that a command has left behind get a quarter of the TTL to end by themselves, but no longer than the lease lasts.
func TestWhatIsLeftBehindEndsWithTheLease(t *testing.T) {
	for _, tt := range []struct {
		name         string
		revoked, end time.Duration // how long after the command has ended
		lost         bool
	}{
		{"while it is held", time.Hour, 2500 * time.Millisecond, false},
		{"it is lost meanwhile", time.Second, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			exited, left := make(chan int, 1), &deaf{}
			exited <- 0
			lease := &revoked{gone: make(chan struct{})}
			end := time.AfterFunc(tt.revoked, func() { close(lease.gone) })
			defer end.Stop()
			system := clock.NewSimulated(0)
			g := guard{lease: lease, clock: system, ttl: 10 * time.Second, events: &events{}, words: io.Discard}
			_, err := g.tend(&group{processes: left, shepherd: unheard(t), clock: system, exited: exited})
			if at := left.killed.Sub(begun); at < tt.end || at > tt.end+50*time.Millisecond {
				t.Errorf("%s: what the command has left behind is killed after %v, want %v", tt.name, at, tt.end)
			}
			var exit cli.ExitError
			if lost := errors.As(err, &exit) && exit.Code == cli.ExitLost; lost != tt.lost {
				t.Errorf("%s: the guard says %v, want that the lease is lost: %v", tt.name, err, tt.lost)
			}
		})
	}
}

// A shepherd that was stopped alone, for longer than a lease, finds an order whose time has
// passed, and behind it the orders of a guard that goes on. It kills only if there are none.
func TestObeysAllOrdersBeforeItKills(t *testing.T) {
	for name, renewed := range map[string]bool{"renewed": true, "not renewed": false} {
		fake := &clock.Fake{}
		fake.Advance(time.Minute)
		in, out := io.Pipe()
		asked, kills := make(chan bool, 10), make(chan int, 10)
		var waits atomic.Bool
		waits.Store(true)
		obeyed := make(chan struct{})
		go func() {
			defer close(obeyed)
			obey(in, func() bool { asked <- true; return waits.Load() }, fake, func(group int) { kills <- group })
		}()
		fmt.Fprintf(out, "group 7\nuntil %d\n", 30*time.Second)
		select {
		case <-asked:
		case <-kills:
			t.Fatalf("%s: the shepherd kills by an old order, and has not looked for others", name)
		}
		if renewed {
			fmt.Fprintf(out, "until %d\n", time.Hour)
		}
		waits.Store(false)
		if !renewed {
			for end := time.Now().Add(30 * time.Second); len(kills) == 0; time.Sleep(time.Millisecond) {
				if fake.Advance(time.Second); time.Now().After(end) {
					t.Fatal("no order was left, and the shepherd does not kill any more")
				}
			}
			if group := <-kills; group != 7 {
				t.Errorf("it kills group %d, want 7", group)
			}
		}
		fmt.Fprintf(out, "desert 0\n")
		out.Close()
		<-obeyed
		if len(kills) > 0 {
			t.Errorf("%s: the shepherd kills a command whose guard has told it of a later time", name)
		}
	}
}

// A shepherd whose time has come while orders wait kills once they are obeyed, if none of them moves the time.
func TestTheDeadlineHoldsBehindOtherOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, begun := clock.NewSimulated(0), time.Now()
		in, out := io.Pipe()
		looks := 0
		var kills []string
		obeyed := make(chan struct{})
		go func() {
			defer close(obeyed)
			obey(in, func() bool { looks++; return looks <= 3 }, system, func(group int) {
				kills = append(kills, fmt.Sprintf("group %d after %v", group, time.Since(begun).Round(time.Millisecond)))
			})
		}()
		fmt.Fprintf(out, "group 7\nuntil %d\n", time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{fmt.Sprintf("group 7 after %v", time.Second+3*orderPause)}; !slices.Equal(kills, want) {
			t.Errorf("its time has come, orders wait at three looks, and it kills %q, want %q", kills, want)
		}
		fmt.Fprintln(out, orderDesert, 0)
		out.Close()
		<-obeyed
	})
}

// A shepherd that was dismissed kills nothing, though the time that it knows comes.
func TestADismissedShepherdLetsTheTimePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		kills := 0
		obeyed := make(chan struct{})
		go func() {
			defer close(obeyed)
			obey(in, func() bool { return false }, clock.NewSimulated(0), func(int) { kills++ })
		}()
		fmt.Fprintf(out, "until %d\ngroup 7\n%s 0\n", time.Minute, orderDesert)
		time.Sleep(time.Hour)
		out.Close()
		if <-obeyed; kills > 0 {
			t.Errorf("a shepherd that was dismissed kills %d times", kills)
		}
	})
}

// Orders in the pipe wait until they have been obeyed, and so does the pipe's end.
func TestOrdersWaitUntilTheyAreObeyed(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &orderPipe{fd: int(out.Fd())}
	if p.waiting() {
		t.Error("nothing was written, and orders are waiting")
	}
	fmt.Fprintln(in, "until 1")
	if !p.waiting() {
		t.Error("an order was written, and none is waiting")
	}
	scanner := bufio.NewScanner(p)
	if !scanner.Scan() || scanner.Text() != "until 1" {
		t.Fatalf("the order is %q, %v", scanner.Text(), scanner.Err())
	}
	if !p.waiting() {
		t.Error("an order was read and is not obeyed yet, and none is waiting")
	}
	next := make(chan string)
	go func() { scanner.Scan(); next <- scanner.Text() }() // it has been obeyed
	for end := time.Now().Add(time.Minute); p.waiting(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("all orders were obeyed, and one is waiting")
		}
	}
	in.Close()
	if last := <-next; last != "" || !p.waiting() {
		t.Errorf("the guard has gone, and the last order is %q; waiting: %v", last, p.waiting())
	}
}
