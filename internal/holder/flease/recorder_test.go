package flease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/peer"
)

// setRecord sets the record of a name through a peer.
func (h *labPeer) setRecord(name, record string) {
	l := h.lab
	l.t.Helper()
	from := h.Leaser()
	defer from.Close()
	lease := l.acquire(from, time.Minute, tenure.Claim{Name: name, TTL: time.Second})
	if err := from.SetRecord(context.Background(), lease, []byte(record)); err != nil {
		l.t.Fatalf("set the record of %q: %v", name, err)
	}
	if err := lease.Release(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// record reads the record of a name through a peer.
func (h *labPeer) record(name string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	from := h.Leaser()
	defer from.Close()
	got, err := from.Record(ctx, name)
	return string(got), err
}

// complete waits until the peer misses no record.
func (h *labPeer) complete(within time.Duration) bool {
	for end := time.Now().Add(within); h.Status().Incomplete; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// TestRecordsOutliveEachPeer: a record stays while peers are killed one after the other, each when the one
// before has heard the records, though in the end none is left that was there when it was set.
func TestRecordsOutliveEachPeer(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		l.peers[0].setRecord("x", "kept")
		for round := range 2 {
			for i, h := range l.peers {
				h.kill()
				h.start(false)
				if !h.complete(10 * time.Second) {
					t.Fatalf("peer %d hears the records of the others never", i+1)
				}
				if got, err := h.record("x", 10*time.Second); got != "kept" {
					t.Errorf("round %d: peer %d has forgotten all, and reads the record %q, %v, want %q", round, i+1, got, err, "kept")
				}
			}
		}
	})
}

// TestWhoForgotIsNotAsked: a record that was set while a peer was away is not missed, though the only other peer
// that can be reached has forgotten it. Nor does that one count for another that has forgotten.
func TestWhoForgotIsNotAsked(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		off := func(i, j int) {
			l.net.Cut(fmt.Sprintf("h%d", i), fmt.Sprintf("h%d", j), 20*time.Second)
			l.net.Cut(fmt.Sprintf("h%d", j), fmt.Sprintf("h%d", i), 20*time.Second)
		}
		off(1, 3)
		off(2, 3)
		l.peers[0].setRecord("x", "kept")
		time.Sleep(21 * time.Second)
		off(1, 2)
		off(1, 3)
		l.peers[1].kill()
		l.peers[1].start(false)
		for _, i := range []int{1, 2} {
			got, err := l.peers[i].record("x", 8*time.Second)
			if err == nil {
				t.Errorf("two peers have the record, one of them is away, and the other has forgotten it: peer %d reads %q", i+1, got)
			} else if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "1 of 3 peers miss no record, and it takes 2") {
				t.Errorf("peer %d: %v", i+1, err)
			}
		}
		if s := l.peers[1].Status(); !s.Incomplete {
			t.Error("a peer that has forgotten a record takes itself for complete")
		}
		time.Sleep(20 * time.Second)
		for i, h := range l.peers {
			if got, err := h.record("x", 10*time.Second); got != "kept" {
				t.Errorf("all is mended, and peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}

// TestAllForget: when a majority has forgotten at one moment, the peers begin anew, with the records that are left.
func TestAllForget(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		l.peers[0].setRecord("x", "kept")
		l.peers[0].Keep("y", 7, []byte("of the third alone"))
		for _, h := range l.peers[1:] {
			h.kill()
		}
		for _, h := range l.peers[1:] {
			h.start(false)
		}
		for _, h := range l.peers[1:] {
			if !h.complete(20 * time.Second) {
				t.Fatal("a majority has forgotten, and the peers keep records no more")
			}
		}
		if got, err := l.peers[2].record("y", 10*time.Second); got != "of the third alone" {
			t.Errorf("one peer has a record still, and another reads %q, %v", got, err)
		}
		for _, h := range l.peers {
			h.kill()
		}
		for _, h := range l.peers {
			h.start(false)
		}
		for i, h := range l.peers {
			if got, err := h.record("x", 20*time.Second); got != "" || err != nil {
				t.Errorf("all have forgotten, and peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}

// TestHalfARecord: a record that its holder could not spread is either shown to all from the first read on,
// or to nobody.
func TestHalfARecord(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		l.peers[0].Keep("x", 9, []byte("half"))
		if got, err := l.peers[0].record("x", 10*time.Second); got != "half" {
			t.Fatalf("%q, %v", got, err)
		}
		l.peers[0].kill()
		if got, err := l.peers[1].record("x", 10*time.Second); got != "half" {
			t.Errorf("a read has shown a record, and the next shows %q, %v", got, err)
		}
	})
}

// TestManyRecords: a peer that has forgotten hears all records, in as many parts as they take.
func TestManyRecords(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		const n = 1200 // of 2 KiB, which are three answers
		for i := range n {
			for _, h := range l.peers[:2] {
				h.Keep(fmt.Sprintf("job/%d", i), 1, make([]byte, 2<<10))
			}
		}
		l.peers[2].kill()
		l.peers[2].start(false)
		if !l.peers[2].complete(30 * time.Second) {
			t.Fatal("the records are too many to be heard")
		}
		if got := l.peers[2].Status().Records; got != n {
			t.Errorf("a peer has heard %d records and takes them for all, want %d", got, n)
		}
	})
}

// TestWordOfAStranger: a stranger's word that a member has a record makes none.
func TestWordOfAStranger(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		l.peers[1].Keep("mine", 3, []byte("2"))
		ask := func(say string) (said struct{ Records []struct{ Data []byte } }) {
			p := l.w.Start("stranger")
			defer l.net.Exit(p)
			b, err := peer.Ask(context.Background(), l.addrs[1], nil, l.net.Dialer(p), []byte(say))
			if err == nil {
				err = json.Unmarshal(b, &said)
			}
			if err != nil {
				t.Fatal(err)
			}
			return said
		}
		for _, say := range []string{
			`{"record":{"name":"x","take":2,"records":[{"name":"x","token":"9","data":"aGk="}]}}`, `{"record":{"name":"x","take":9}}`, `{"record":{"name":"x","take":1}}`,
			`{"record":{"name":"mine","take":2}}`,
		} {
			ask(say)
			time.Sleep(time.Second)
		}
		if n := l.peers[0].Status().Records; n != 1 {
			t.Errorf("after a stranger's words the peer has %d records, want that of a member", n)
		}
		if got := ask(`{"record":{"name":"mine"}}`).Records; len(got) != 1 || string(got[0].Data) != "2" {
			t.Errorf("a member has a record, and the peer that was sent for it has %q", got)
		}
	})
}

// TestRecordsAreMany: the error of one name too many says how many there may be.
func TestRecordsAreMany(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		h := l.peers[0]
		for i := range engine.RecordsMax {
			h.Keep(fmt.Sprint("job/", i), 1, nil)
		}
		from := h.Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Minute, tenure.Claim{Name: "x", TTL: time.Second})
		err := from.SetRecord(context.Background(), lease, []byte("one too many"))
		if !errors.Is(err, engine.ErrBusy) || !strings.Contains(err.Error(), "records of 16384 names") {
			t.Errorf("the record of one name too many: %v", err)
		}
	})
}

// TestRecordsOfOthersLeases: a client sets the record of a lease that it holds, and of no other.
func TestRecordsOfOthersLeases(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		h := l.peers[0]
		k := h.talk("client")
		k.say(`{"op":"hello","version":2}`)
		k.hear("welcome", time.Second)
		set := func(ids, record string) heard {
			k.say(`{"op":"set record","id":99,"ids":[%s],"record":"%s"}`, ids, record)
			e, ok := k.hear("recorded", 5*time.Second)
			if !ok {
				t.Errorf("the record of %s is set to %q without an answer", ids, record)
			}
			return e
		}
		k.say(`{"op":"acquire","id":1,"at":%d,"name":"x","slots":1,"ttl_ms":3000}`, h.mono.Now())
		k.hear("acquired", 5*time.Second)
		if e := set("1", "aGk="); e.Error != "" {
			t.Errorf("the record of a lease that is held: %s", e.Error)
		}
		k.say(`{"op":"release","id":1}`)
		k.hear("released", 5*time.Second)
		for _, ids := range []string{"1", "2", "1,2", ""} {
			if e := set(ids, "bm8="); !strings.Contains(e.Error, tenure.ErrLost.Error()) {
				t.Errorf("a client sets the record of a lease that it does not hold, %q: %+v", ids, e)
			}
		}
		if got, err := h.record("x", 5*time.Second); got != "hi" {
			t.Errorf("the record is %q, %v, want %q", got, err, "hi")
		}
	})
}

// TestAnEmptyRecord: a record without a byte is one, to clients, too.
func TestAnEmptyRecord(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		lease := l.acquire(c, time.Minute, tenure.Claim{Name: "x", TTL: time.Second})
		if err := c.SetRecord(context.Background(), lease, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Record(context.Background(), "x"); got == nil || len(got) != 0 || err != nil {
			t.Errorf("an empty record reads as %#v, %v", got, err)
		}
		if got, err := c.Record(context.Background(), "y"); got != nil || err != nil {
			t.Errorf("no record reads as %#v, %v", got, err)
		}
	})
}

// TestAMinorityAcknowledgesNothing: a record is not acknowledged before a majority has it.
func TestAMinorityAcknowledgesNothing(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Minute, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		for _, other := range []string{"h2", "h3"} {
			l.net.Cut("h1", other, 10*time.Second)
			l.net.Cut(other, "h1", 10*time.Second)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := from.SetRecord(ctx, lease, []byte("one peer's"))
		if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "1 of 3 peers have it and miss no other, and it takes 2") {
			t.Errorf("the holder's peer is cut off, and a record is set: %v", err)
		}
	})
}
