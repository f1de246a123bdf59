package flease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestTTLsWithinTMax: a claim without a TTL gets as much as its lock delay leaves of t_max. A claim for
// more than t_max is refused. Clients are served like callers of the peer's process.
func TestTTLsWithinTMax(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		own := l.peers[0].Leaser()
		defer own.Close()
		client := l.peers[0].client("c")
		defer client.Close()
		for name, from := range map[string]tenure.Leaser{"own": own, "client": client} {
			for _, tt := range []struct{ ttl, delay, want time.Duration }{
				{0, 0, 4 * time.Second},
				{0, 3 * time.Second, time.Second},
				{time.Second, 3 * time.Second, time.Second},
				{800 * time.Millisecond, 0, 800 * time.Millisecond},
				{100 * time.Millisecond, 0, 0}, // four round timeouts are the least
				{0, 3500 * time.Millisecond, 0},
				{4 * time.Second, time.Millisecond, 0},
				{4*time.Second + 1, 0, 0},
				{time.Second + 1, 0, 0},
			} {
				lease, err := from.TryAcquire(context.Background(), tenure.Claim{Name: "x", TTL: tt.ttl, LockDelay: tt.delay})
				if tt.want == 0 {
					if !errors.Is(err, tenure.ErrClaim) || !mentions(err, "together more than t_max, which is 4s", "ask for 800ms or more", "whole milliseconds") {
						t.Errorf("%s: a TTL of %v and a lock delay of %v: %v", name, tt.ttl, tt.delay, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: a TTL of %v and a lock delay of %v: %v", name, tt.ttl, tt.delay, err)
					continue
				}
				guard := tt.want / 20
				if left := time.Until(lease.Deadline()); left > tt.want-guard || left < tt.want-guard-20*time.Millisecond {
					t.Errorf("%s: a TTL of %v and a lock delay of %v: it is held for %v, want %v less a twentieth", name, tt.ttl, tt.delay, left, tt.want)
				}
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestCallsWithBadNames: calls with bad names, and calls of a closed Leaser, are refused without a message.
func TestCallsWithBadNames(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		own, client := l.peers[0].Leaser(), l.peers[0].client("c")
		type caller interface {
			tenure.Leaser
			tenure.Awaiter
			tenure.Lister
		}
		for name, from := range map[string]caller{"own": own, "client": client} {
			ctx := context.Background()
			calls := func(with string) map[string]error {
				errs := map[string]error{}
				_, errs["acquire"] = from.Acquire(ctx, tenure.Claim{Name: with})
				_, errs["try"] = from.TryAcquire(ctx, tenure.Claim{Name: with})
				var s tenure.State
				if s, errs["observe"] = from.Observe(ctx, with); s.Name != with {
					t.Errorf("%s: a look at %q shows %q", name, with, s.Name)
				}
				if s, errs["await"] = from.Await(ctx, tenure.State{Name: with}); s.Name != with {
					t.Errorf("%s: to await %q shows %q", name, with, s.Name)
				}
				return errs
			}
			for call, err := range calls("a/") {
				if !errors.Is(err, tenure.ErrClaim) {
					t.Errorf("%s: %s with a bad name: %v", name, call, err)
				}
			}
			if err := from.Close(); err != nil {
				t.Error(err)
			}
			errs := calls("x")
			_, errs["list"] = from.List(ctx, "")
			for call, err := range errs {
				if !errors.Is(err, tenure.ErrClosed) {
					t.Errorf("%s: %s of what is closed: %v", name, call, err)
				}
			}
		}
		if _, err := client.Status(context.Background()); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("the status, of what is closed: %v", err)
		}
	})
}

// TestBadRequestsOfClients: a request that no client of this program sends ends the connection, with
// the reason, whether it comes first or after others.
func TestBadRequestsOfClients(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		other := l.peers[0].Leaser()
		defer other.Close()
		l.acquire(other, time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		for name, tt := range map[string]struct{ first, then, says string }{
			"a claim from the future": {`{"op":"status","id":7}`, `{"op":"acquire","id":1,"at":9000000000000000000,"name":"y"}`, "the client reads another clock than the peer"},
			"an alive of the future":  {`{"op":"status","id":7}`, `{"op":"alive","at":9000000000000000000}`, "the client reads another clock than the peer"},
			"a claim's id twice":      {`{"op":"acquire","id":1,"at":NOW,"name":"x","ttl_ms":3000}`, `{"op":"acquire","id":1,"at":NOW,"name":"y"}`, "request 1 is under way: ids are used once"},
			"a look's id twice":       {`{"op":"await","id":1,"name":"z"}`, `{"op":"observe","id":1,"name":"z"}`, "request 1 is under way: ids are used once"},
		} {
			k := l.peers[0].talk("client")
			k.say(`{"op":"hello","version":2}`)
			k.hear("welcome", time.Second)
			now := int64(l.peers[0].mono.Now())
			for _, line := range []string{tt.first, tt.then} {
				k.say("%s", strings.ReplaceAll(line, "NOW", fmt.Sprint(now)))
				time.Sleep(10 * time.Millisecond)
			}
			if e, ok := k.hear("error", time.Second); !ok || !strings.Contains(e.Error, tt.says) {
				t.Errorf("%s: %+v, want %q", name, e, tt.says)
			}
			_ = k.conn.Close()
		}
	})
}

// TestNothingIsListedInSilence: a peer that has forgotten its promises lists no names, and does not
// count when names are listed.
func TestNothingIsListedInSilence(t *testing.T) {
	inLab(t, 2, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		l.peers[1].kill()
		l.peers[1].start(false)
		time.Sleep(500 * time.Millisecond)
		asks := map[string]tenure.Lister{"another": from, "itself": l.peers[1].Leaser()}
		for name, of := range asks {
			if got, err := of.List(context.Background(), ""); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "peer 2: it is silent after its start") {
				t.Errorf("%s asks for names, of which a silent peer knows none: %q, %v", name, got, err)
			}
		}
		time.Sleep(brief.TMax + time.Second)
		l.acquire(from, time.Second, tenure.Claim{Name: "y", TTL: 3 * time.Second})
		for name, of := range asks {
			if got, err := of.List(context.Background(), ""); err != nil || len(got) != 1 {
				t.Errorf("%s asks for names when all serve: %q, %v", name, got, err)
			}
		}
	})
}

// TestListEndsWithTheLeaser: a List that waits for silent peers ends when the Leaser is closed, or
// when its caller gives up.
func TestListEndsWithTheLeaser(t *testing.T) {
	inLab(t, 2, brief, func(l *lab) {
		l.net.Cut("h1", "h2", time.Hour)
		l.net.Cut("h2", "h1", time.Hour)
		for _, closes := range []bool{true, false} {
			from := l.peers[0].Leaser()
			ctx, giveUp := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := from.List(ctx, "")
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
			if closes {
				from.Close()
			} else {
				giveUp()
			}
			if err := <-ended; err == nil || time.Since(began) > 150*time.Millisecond {
				t.Errorf("the Leaser closes: %v; after %v the names are listed, %v", closes, time.Since(began), err)
			}
			giveUp()
			from.Close()
		}
	})
}

// TestReadyEnds: Ready ends when its caller gives up or the peer ends, and returns the reason.
func TestReadyEnds(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		h := l.peers[0]
		h.kill()
		h.start(false)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := h.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gives up waiting for a silent peer hears %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- h.Ready(context.Background()) }()
		time.Sleep(time.Second)
		if err := h.Err(); err != nil {
			t.Errorf("the error of a peer that runs: %v", err)
		}
		h.close()
		if err := <-ended; !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("a caller that waits for a peer that is closed hears %v", err)
		}
		if err := h.Err(); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("the error of a peer that was closed: %v", err)
		}
		h.start(false)
	})
}

// TestLooksAreRepeated: a look without a majority is repeated until one answers. If its caller gives
// up before, it returns the reason.
func TestLooksAreRepeated(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		heal := func() {}
		for _, o := range []string{"h2", "h3"} {
			before, there, back := heal, l.net.Cut("h1", o, time.Hour), l.net.Cut(o, "h1", time.Hour)
			heal = func() { before(); there(); back() }
		}
		began := time.Now()
		_, err := from.Observe(context.Background(), "x")
		if took := time.Since(began); took != 5*time.Second || !errors.Is(err, tenure.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waited for some seconds") {
			t.Errorf("nobody answers a look, and after %v: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := from.Observe(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller has waited for a second, and hears %v", err)
		}
		time.AfterFunc(3*time.Second, heal)
		if _, err := from.Observe(context.Background(), "x"); err != nil {
			t.Errorf("a majority answers after three seconds, and the look says %v", err)
		}
		closing := l.peers[0].Leaser()
		for _, o := range []string{"h2", "h3"} {
			l.net.Cut("h1", o, 2*time.Second)
		}
		time.AfterFunc(time.Second, func() { closing.Close() })
		if _, err := closing.Observe(context.Background(), "x"); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("the Leaser is closed during a look, which says %v", err)
		}
	})
}

// TestParseMembers: peers get their indices from the order of their addresses, or as the list says.
func TestParseMembers(t *testing.T) {
	for list, want := range map[string]string{
		"b:7000,a:7000,c:7000": "epoch 1: 1=a:7000 2=b:7000 3=c:7000",
		"7=b:1,3=a:1":          "epoch 1: 3=a:1 7=b:1",
		"a:1":                  "epoch 1: 1=a:1",
	} {
		if m, err := engine.ParseMembers(list); err != nil || m.String() != want {
			t.Errorf("%q: %v, %v; want %v", list, m, err, want)
		}
	}
	for list, want := range map[string]string{
		"":                "write host:port",
		"a:1,":            "write host:port",
		"a:1,a:1":         "listed twice, with the indices 1 and 2",
		"1=a:1,b:1":       "give an index with every peer or with none",
		"1=a:1,1=b:1":     "two peers with index 1, a:1 and b:1",
		"x=a:1":           `"x" is no index: write INDEX=host:port with an index from 1 to 1023`,
		"-1=a:1":          `"-1" is no index`,
		"0=a:1":           "give it one from 1 to 1023",
		"1024=a:1":        "give it one from 1 to 1023",
		"1=a:0":           `"0" is not a port`,
		"1=a:65536":       `"65536" is not a port`,
		"a:1,b:1,[::1]:1": "",
	} {
		m, err := engine.ParseMembers(list)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v; want %q", list, m, err, want)
		}
	}
}

// mentions reports whether an error has one of the words.
func mentions(err error, words ...string) bool {
	for _, w := range words {
		if strings.Contains(err.Error(), w) {
			return true
		}
	}
	return false
}
