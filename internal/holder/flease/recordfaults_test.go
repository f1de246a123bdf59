package flease_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestTwoBegin: two of three that have forgotten at one moment begin anew, and both of them, though the third is away. So
// do two of a new cluster.
func TestTwoBegin(t *testing.T) {
	for _, how := range []string{"ended", "cut off", "cut off from one"} {
		t.Run(how, func(t *testing.T) {
			inLab(t, 3, brief, func(l *lab) {
				for _, h := range l.peers {
					h.kill()
				}
				switch how {
				case "cut off":
					l.off(3, time.Hour, 1, 2)
					l.peers[2].start(false)
				case "cut off from one": // which waits for its answer, and the other has begun meanwhile
					l.off(3, time.Hour, 2)
				}
				for _, h := range l.peers[:2] {
					h.start(false)
				}
				for i, h := range l.peers[:2] {
					if !h.complete(30 * time.Second) {
						t.Fatalf("two have forgotten at one moment, and peer %d waits for the third", i+1)
					}
				}
				l.peers[0].setRecord("x", "kept")
				if got, err := l.peers[1].record("x", 5*time.Second); got != "kept" {
					t.Errorf("the other reads %q, %v", got, err)
				}
				if how == "ended" {
					l.peers[2].start(false)
					if !l.peers[2].complete(20 * time.Second) {
						t.Error("the third comes, and misses records for ever")
					}
				}
			})
		})
	}
}

// TestAddressesOfAnotherCluster: peers of other clusters at the addresses of members are not believed about records.
func TestAddressesOfAnotherCluster(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		for i, h := range l.peers {
			h.kill()
			if i == 0 {
				continue
			}
			cfg := h.config()
			cfg.Membership = engine.Fixed(engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{h.id: cfg.Self}})
			h.run(cfg)
		}
		time.Sleep(time.Second) // they have begun, each for itself
		l.peers[0].start(false)
		if l.peers[0].complete(10 * time.Second) {
			t.Error("peers of other clusters are at the addresses of the others, and a peer takes itself for complete by their word")
		}
	})
}

// TestOrderOfRequests: of the records that a client sets one after the other the last stays, though the client waits for none and
// has given some up.
func TestOrderOfRequests(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		h := l.peers[0]
		k := h.talk("client")
		k.say(`{"op":"hello","version":2}`)
		k.hear("welcome", time.Second)
		k.say(`{"op":"acquire","id":1,"at":%d,"name":"x","slots":1,"ttl_ms":3000}`, h.mono.Now())
		k.hear("acquired", 5*time.Second)
		const n = 10
		for i := range 10 {
			id, say := uint64(100*(i+1)), fmt.Sprintf(`{"op":"alive","at":%d,"ids":[1]}`, h.mono.Now())
			for j := range n {
				say += fmt.Sprintf("\n"+`{"op":"set record","id":%d,"ids":[1],"record":"%s"}`, id+uint64(j), base64.StdEncoding.EncodeToString(fmt.Append(nil, j)))
				if j%3 == 1 {
					say += fmt.Sprintf("\n"+`{"op":"cancel","id":%d}`, id+uint64(j))
				}
			}
			k.say("%s", say)
			for range n {
				if _, ok := k.hear("recorded", 5*time.Second); !ok {
					t.Fatal("no answer")
				}
			}
			if got, err := h.record("x", 5*time.Second); got != fmt.Sprint(n-1) {
				t.Fatalf("try %d: a client has set %d records, one after the other, and number %s stays, %v", i, n, got, err)
			}
		}
	})
}

// TestOfACallThatHasEnded: a call whose context has ended sets nothing.
func TestOfACallThatHasEnded(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Minute, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := from.SetRecord(ctx, lease, []byte("late")); !errors.Is(err, context.Canceled) {
			t.Errorf("a record is set by a call that has ended: %v", err)
		}
		if got, err := l.peers[0].record("x", 5*time.Second); got != "" || err != nil {
			t.Errorf("a call that had ended has set %q, %v", got, err)
		}
	})
}

// TestClocksThatWereSetBack: the record of a tenure takes the place of an earlier one whose token is greater, because clocks were
// set back; and so do those of the next tenures. That of a tenure that is over does not.
func TestClocksThatWereSetBack(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		const ahead = 1 << 62
		for _, h := range l.peers[1:] {
			h.Keep("x", ahead, []byte("by a clock that was ahead"))
		}
		for i, h := range l.peers {
			want := fmt.Sprint("tenure ", i)
			h.setRecord("x", want)
			for j, reader := range l.peers {
				if got, err := reader.record("x", 5*time.Second); got != want {
					t.Errorf("peer %d holds the lease and has set a record over one with a greater token; peer %d reads %q, %v", i+1, j+1, got, err)
				}
			}
		}
		from := l.peers[0].Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Minute, tenure.Claim{Name: "y", TTL: 3 * time.Second})
		l.peers[1].Keep("y", ahead, []byte("earlier"))
		l.peers[2].Keep("y", ahead, []byte("earlier"))
		for i := range 2 { // the second of a tenure has the first in its way
			if err := from.SetRecord(context.Background(), lease, fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
			if got, err := l.peers[1].record("y", 5*time.Second); got != fmt.Sprint(i) {
				t.Errorf("a tenure has set its record %d, and another reads %q, %v", i, got, err)
			}
		}
		l.off(3, 10*time.Second, 1, 2) // so that the second has to be met
		time.Sleep(time.Second)        // until nobody fetches any more
		l.peers[1].Keep("y", ahead+1, []byte("of a later tenure"))
		engine.Expire(lease)
		if err := l.peers[0].Set(context.Background(), lease, []byte("of a tenure that is over")); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("a lease is lost, and sets a record over one with a greater token: %v", err)
		}
		n := 0
		for _, h := range l.peers {
			if string(h.Kept("y")) == "of a later tenure" {
				n++
			}
		}
		if n < 2 {
			t.Errorf("a record with a greater token was met, and %d of 3 peers have it when it is judged", n)
		}
	})
}

// TestNoRoomAnywhere: where others have no room for one name more, the error says so, and no caller waits for it.
func TestNoRoomAnywhere(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		for i := range engine.RecordsMax {
			l.peers[1].Keep(fmt.Sprint("job/", i), 1, nil)
			l.peers[2].Keep(fmt.Sprint("job/", i), 1, nil)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := l.peers[0].Spread(ctx, "x", 1, nil)
		if !errors.Is(err, engine.ErrBusy) || ctx.Err() != nil {
			t.Errorf("two of three have no room, and the third says: %v", err)
		}
		two := l.peers[1]
		two.kill()
		two.start(false)
		for i := range engine.RecordsMax {
			two.Keep(fmt.Sprint("others/", i), 1, nil)
		}
		time.Sleep(time.Second) // it has heard those of the third
		one := l.peers[0]
		one.kill()
		one.start(false)
		one.Keep("mine", 1, nil)
		time.Sleep(10 * time.Second)
		l.off(2, time.Minute, 1, 3)
		if _, err := one.record("x", time.Second); err == nil || !strings.Contains(err.Error(), "no room for the records of others") {
			t.Errorf("a peer has restarted, and the records of others do not fit: %v", err)
		}
	})
}

// TestRecordsOverASlowNetwork: a peer that has forgotten hears all records over a network that needs half a minute for them and
// loses each fifth question to a member.
func TestRecordsOverASlowNetwork(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		const n = 1200 // of 2 KiB
		for i := range n {
			for _, h := range l.peers[:2] {
				h.Keep(fmt.Sprintf("job/%d", i), 1, make([]byte, 2<<10))
			}
		}
		h := l.peers[2]
		h.kill()
		cfg := h.config()
		dial := cfg.Dial
		dials := map[string]*atomic.Int64{l.addrs[1]: {}, l.addrs[2]: {}}
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			time.Sleep(time.Second)
			if dials[addr].Add(1)%5 == 0 {
				return nil, errors.New("lost")
			}
			return dial(ctx, addr)
		}
		h.run(cfg)
		if !h.complete(5 * time.Minute) {
			t.Error("over a slow network the records are heard never")
		}
		if got := h.Status().Records; got != n {
			t.Errorf("it has heard %d records of %d", got, n)
		}
	})
}
