package main

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/flease"
)

// No member has the ID 0, which would be taken for none at all.
func TestNoMemberIsZero(t *testing.T) {
	for _, s := range []string{"0=a:1", "=a:1", "1=a", "1", "x=a:1"} {
		if id, addr, err := parseMember(s); err == nil {
			t.Errorf("%q is taken for member %d at %s", s, id, addr)
		}
	}
	for s, want := range map[string]struct {
		id   broadcast.MemberID
		addr string
	}{"1=a:1": {1, "a:1"}, "18446744073709551615=[::1]:7": {1<<64 - 1, "[::1]:7"}, "4294967296=:7": {1 << 32, ":7"}} {
		if id, addr, err := parseMember(s); err != nil || id != want.id || addr != want.addr {
			t.Errorf("%q is taken for member %d at %q, %v; want %d at %q", s, id, addr, err, want.id, want.addr)
		}
	}
}

// When the output is not read, renewals leave room for more important events.
func TestRenewalsLeaveRoom(t *testing.T) {
	e := events{lines: make(chan []byte, 10)}
	for range 20 {
		e.print(event{Event: "renewed"})
	}
	if n := len(e.lines); n != 6 {
		t.Errorf("of twenty renewals %d are queued, want as many as half of the room, and one", n)
	}
	e.print(event{Event: "lost"})
	for len(e.lines) > 1 {
		<-e.lines
	}
	if line := string(<-e.lines); !strings.Contains(line, "lost") {
		t.Errorf("the last line is %s, want that the lease was lost", line)
	}
}

// A lease that is shared has no number of slots.
func TestSharedIsNoNumber(t *testing.T) {
	var b strings.Builder
	leaseTable(&b, []tenure.State{{Name: "n", Holders: []tenure.Holding{{Holder: "h", Slots: tenure.Shared}}}})
	if !strings.Contains(b.String(), "shared") {
		t.Errorf("a shared lease is shown as\n%s", &b)
	}
}

// A member's client tells errors worth another try from failures.
func TestAnswersOfAMember(t *testing.T) {
	for err, want := range map[error]int{nil: 200, broadcast.ErrBusy: 429, broadcast.ErrTooLarge: 413, broadcast.ErrRemoved: 409} {
		w := httptest.NewRecorder()
		answer(w, 1, err)
		if w.Code != want {
			t.Errorf("%v is answered with %d, want %d", err, w.Code, want)
		}
	}
}

// An output that is not read holds nothing up: what has no room is left out, and the last lines have a second.
func TestAnOutputThatIsNotReadHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread, w := io.Pipe()
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.Copy(io.Discard, unread)
		}()
		begun, e := time.Now(), newEvents(w)
		for range 1000 {
			e.print(event{Event: "lost"})
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("to print what is not read takes %v", took)
		}
		if e.close(); time.Since(begun) != time.Second {
			t.Errorf("an output that is not read is waited for for %v, want a second", time.Since(begun))
		}
		time.Sleep(time.Hour)
		w.Close()
	})
}

// Of several errors by which a member cannot go on the first is kept, and none holds the member up.
func TestTheFirstFailureIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		first, fail := errors.New("first"), firstTo(failed)
		told := make(chan struct{})
		go func() {
			fail(first)
			fail(errors.New("second"))
			close(told)
		}()
		synctest.Wait()
		select {
		case <-told:
		default:
			t.Error("a member is held up by its second error")
		}
		if err := <-failed; err != first {
			t.Errorf("a member ends with %v, want the first error", err)
		}
		<-told
	})
}

// endedPeer is a peer that serves no more.
type endedPeer struct {
	err    error
	closes int
}

func (p *endedPeer) Err() error   { return p.err }
func (p *endedPeer) Close() error { p.closes++; return errors.New("odd close") }

// A peer that cannot go on says why by its own word, if it has one, and is closed.
func TestAPeerThatCannotGoOn(t *testing.T) {
	for own, want := range map[error]string{nil: "socket", errors.New("another was faster"): "another was faster"} {
		p := &endedPeer{err: own}
		if err := ended(p, errors.New("socket")); err == nil || err.Error() != "this peer cannot go on: "+want+"\nodd close" || p.closes != 1 {
			t.Errorf("a peer that says %v ends with %v, and is closed %d times; want %q, and once", own, err, p.closes, want)
		}
	}
}

// A second signal ends what takes its time to close, unless it comes so soon that it is the first once more.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	for _, tt := range []struct {
		signals []time.Duration // after the first
		ended   time.Duration   // 0: it is not
	}{
		{},
		{[]time.Duration{0, 499 * time.Millisecond}, 0},
		{[]time.Duration{500 * time.Millisecond}, 500 * time.Millisecond},
		{[]time.Duration{0, time.Minute, 2 * time.Minute}, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			signals, odd, begun := make(chan os.Signal, 2), errors.New("odd"), time.Now()
			for _, after := range tt.signals {
				time.AfterFunc(after, func() { signals <- syscall.SIGTERM })
			}
			var ended []time.Duration
			err := closeUnless(signals, func() error { time.Sleep(time.Hour); return odd }, func() { ended = append(ended, time.Since(begun)) })
			close(signals)
			synctest.Wait()
			if want := slices.DeleteFunc([]time.Duration{tt.ended}, func(d time.Duration) bool { return d == 0 }); !slices.Equal(ended, want) || err != odd {
				t.Errorf("with signals %v after the first, what takes an hour to close is ended at once after %v, want %v; and its error is %v", tt.signals, ended, want, err)
			}
		})
	}
}

// A peer that starts says which it is, and for how long it is silent.
func TestAPeerSaysThatItStarts(t *testing.T) {
	var said strings.Builder
	code := -1
	if stopAtOnce(&said, func(c int) { code = c }); code != cli.ExitFailure || said.String() != "tenure: stopped at once by a second signal\n" {
		t.Errorf("after a second signal a peer says %q, and ends with %d; want 1, and why", &said, code)
	}
	s := flease.Status{Self: 2, Addr: "b:7000", SilentMS: 31500, Peers: make([]flease.MemberStatus, 3)}
	if got, want := started(s, "/s"), "peer 2 of 3 at b:7000, for commands at /s; silent for 31.5s"; got != want {
		t.Errorf("a peer that starts says %q, want %q", got, want)
	}
}

// How far a member is shows in its second answer: the first call makes the connection.
func TestARoundTripIsOfAConnectionThatIsThere(t *testing.T) {
	for fails, want := range map[int]time.Duration{0: time.Second, 1: 0, 2: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			calls, odd := 0, errors.New("odd")
			took, err := roundTrip(func() error {
				if calls++; calls == 1 {
					time.Sleep(time.Minute)
				} else {
					time.Sleep(time.Second)
				}
				if calls == fails {
					return odd
				}
				return nil
			})
			if took != want || (err == odd) != (fails > 0) {
				t.Errorf("the first call takes a minute and the second a second, and call %d fails: it is %v far, %v; want %v", fails, took, err, want)
			}
		})
	}
}

// When all has been written nothing is waited for.
func TestAnOutputThatIsReadIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, e := time.Now(), newEvents(io.Discard)
		e.print(event{Event: "lost"})
		if e.close(); time.Since(begun) > 0 {
			t.Errorf("an output that is read is waited for for %v", time.Since(begun))
		}
	})
}
