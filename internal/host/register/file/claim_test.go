package file

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// openOver opens a store on a device that is changed by a wrapper once its header was read.
func openOver(t *testing.T, path string, wrap func(file) file) (*Store, error) {
	t.Helper()
	h, err := readHeader(OS, path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := host{}.open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return openOn(wrap(f), path, h, Options{Clock: realClock})
}

// deafArea fails writes to areas.
type deafArea struct{ file }

func (d deafArea) WriteAt(p []byte, off int64) (int, error) {
	if off >= claimAt(1) { // of one area
		return 0, errBlind
	}
	return d.file.WriteAt(p, off)
}

// An Open that fails after it has claimed an area keeps it no longer than one that died.
func TestAFailedOpenKeepsNoArea(t *testing.T) {
	for what, wrap := range map[string]func(f file) file{
		"be read":    func(f file) file { return blind{f} },
		"be written": func(f file) file { return deafArea{f} },
	} {
		synctest.Test(t, func(t *testing.T) {
			path := newDevice(t, InitOptions{Handles: 1})
			if s, err := openOver(t, path, wrap); !errors.Is(err, errBlind) {
				t.Fatalf("an area cannot %s: Open returns %v, %v", what, s, err)
			}
			next, err := Open(path, Options{Clock: realClock})
			if err != nil {
				t.Fatalf("an area could not %s, and the Open that failed keeps it: %v", what, err)
			}
			next.Close()
		})
	}
}

// slowClaims has writes to the claim blocks take long.
type slowClaims struct {
	file
	pause *atomic.Int64
}

func (d slowClaims) WriteAt(p []byte, off int64) (int, error) {
	n, err := d.file.WriteAt(p, off)
	if off < claimAt(1) { // of one area
		time.Sleep(time.Duration(d.pause.Load()))
	}
	return n, err
}

// An area is given back though the device takes a while: Close waits for that as long as the claim lasts.
func TestAnAreaIsGivenBackToASlowDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		var pause atomic.Int64
		s, err := openOver(t, path, func(f file) file { return slowClaims{f, &pause} })
		if err != nil {
			t.Fatal(err)
		}
		pause.Store(int64(s.header.Term / 8))
		time.Sleep(s.header.Term) // a renewal may be under way
		do(t, s, put("x", 1, 1, "one"))
		s.Close()
		began := time.Now()
		next := openArea(t, path)
		if took := time.Since(began); took > s.header.Term/2 {
			t.Errorf("an area was given back to a slow device, and is had after %v of a Term of %v", took, s.header.Term)
		}
		wantContents(t, next, "x", "1 one")
	})
}

// A store that waits for an area tolerates another claim that dies meanwhile.
func TestAnAreaThatIsContendedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		c := s.home.f.(*area).claim
		c.driver.Halt() // it died
		s.dead = errBlind
		dies := func(seq uint64) {
			if err := c.dev.write(claimBlock{data: disklease.Unreadable([]byte{byte(seq)}, s.header.lateWrite()), version: machine.Version{Seq: seq}}, claimAt(c.area)); err != nil {
				t.Error(err)
			}
		}
		time.AfterFunc(s.header.taking()*3/4, func() { dies(1000) })
		time.AfterFunc(s.header.taking()*6/4, func() { dies(1001) })
		next, err := Open(path, Options{Clock: realClock})
		if err != nil {
			t.Fatalf("two claims to the only area died one after the other: %v", err)
		}
		next.Close()
	})
}

// stuckClaims never ends a write to the claim blocks once it is stuck, or before it is let go.
type stuckClaims struct {
	file
	stuck *atomic.Bool
	letGo chan struct{}
}

func (d stuckClaims) WriteAt(p []byte, off int64) (int, error) {
	if off < claimAt(1) && d.stuck.Load() { // of one area
		<-d.letGo
	}
	return d.file.WriteAt(p, off)
}

// Close waits for a device that does not answer no longer than others have to wait for the area.
func TestAnAreaOfADeviceThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		var stuck atomic.Bool
		letGo := make(chan struct{})
		s, err := openOver(t, path, func(f file) file { return stuckClaims{f, &stuck, letGo} })
		if err != nil {
			t.Fatal(err)
		}
		do(t, s, put("x", 1, 1, "one"))
		stuck.Store(true)
		began := time.Now()
		forever := time.AfterFunc(time.Hour, func() { close(letGo) })
		s.Close()
		if took := time.Since(began); took > s.header.Term {
			t.Errorf("Close waits for a device that hangs for %v, where a claim lasts for %v", took, s.header.Term)
		}
		if forever.Stop() {
			close(letGo)
		}
	})
}

// blindClaims cannot read the areas.
type blindClaims struct {
	file
	blind *atomic.Bool
}

func (d blindClaims) ReadAt(p []byte, off int64) (int, error) {
	if off == claimAt(0) && d.blind.Load() {
		return 0, errBlind
	}
	return d.file.ReadAt(p, off)
}

// A device whose claimed areas cannot be read is not taken for one without any: no operation is
// answered.
func TestADeviceWhoseClaimsCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		var blind atomic.Bool
		s, err := openOver(t, path, func(f file) file { return blindClaims{f, &blind} })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do(t, s, put("x", 1, 1, "one"))
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		dev := onlooker.vol.(*device)
		dev.f = blindClaims{dev.f, &blind}
		blind.Store(true)
		for who, reader := range map[string]*Store{"a handle": s, "an onlooker": onlooker} {
			if r := reader.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, errBlind) || errors.Is(r.Err, register.ErrGone) {
				t.Errorf("%s reads %+v, %v; want the device's error", who, r.Value, r.Err)
			}
			if names, err := reader.Names(); !errors.Is(err, errBlind) {
				t.Errorf("%s lists %q, %v; want the device's error", who, names, err)
			}
		}
		blind.Store(false)
		wantContents(t, s, "x", "1 one")
		wantContents(t, onlooker, "x", "1 one")
	})
}

// A claim holds up to its deadline, which renewals put off, and no longer once it is lost or given up.
func TestHowLongAClaimHolds(t *testing.T) {
	now := machine.Mono(50)
	c := &claim{now: func() machine.Mono { return now }, ended: make(chan contest, 1), left: make(chan struct{}, 1)}
	holds := func(what string, want bool) {
		t.Helper()
		if err := c.check(); (err == nil) != want || !want && !errors.Is(err, register.ErrGone) {
			t.Errorf("%s: %v, want that it holds: %v", what, err, want)
		}
	}
	holds("not had yet", false)
	c.outcomes([]disklease.Outcome{disklease.Acquired{Deadline: 100}})
	if end := <-c.ended; !end.won || end.err != nil {
		t.Errorf("had: the contest ends with %+v", end)
	}
	now = 99
	holds("just before its deadline", true)
	now = 100
	holds("at its deadline", false)
	c.outcomes([]disklease.Outcome{disklease.Renewed{Deadline: 200}})
	holds("renewed", true)
	c.outcomes([]disklease.Outcome{disklease.Lost{}})
	holds("lost before its deadline", false)
	c.outcomes([]disklease.Outcome{disklease.Refused{Err: errOthers}})
	if end := <-c.ended; end.won || end.err != errOthers {
		t.Errorf("refused: the contest ends with %+v", end)
	}
	c.outcomes([]disklease.Outcome{disklease.Left{}, disklease.Left{}})
	if len(c.left) != 1 {
		t.Error("it was left, and nobody is told")
	}
}

// A claim reads the content of an area's claim blocks, and an unreadable block may be a
// claim.
func TestWhatAClaimReads(t *testing.T) {
	h := &storeHeader{Header: testHeader, areas: 2, slots: 4}
	sealed := func(c claimBlock) []byte {
		b := make([]byte, block)
		c.encode(b)
		return b
	}
	record := claimBlock{machine.Version{Seq: 7, Writer: machine.ID{1}}, []byte("record")}
	note := claimBlock{machine.Version{Writer: machine.ID{2}}, []byte("note")}
	torn := sealed(record)
	torn[100] ^= 1
	noted := []machine.Noted{{Writer: machine.ID{2}, Data: []byte("note")}}
	unread := machine.Value{Version: machine.Version{Seq: 1}, Next: 2, Data: disklease.Unreadable(torn, h.lateWrite())}
	for _, tt := range []struct {
		name         string
		record, note []byte
		want         machine.Value
		virgin       bool
	}{
		{"nobody's", sealed(claimBlock{}), sealed(claimBlock{}), machine.Value{Next: 1}, true},
		{"a claim", sealed(record), sealed(claimBlock{}), machine.Value{Version: record.version, Data: record.data, Next: 8}, false},
		{"a claim that was released", sealed(record), sealed(note), machine.Value{Version: record.version, Data: record.data, Next: 8, Notes: noted}, false},
		{"a note that was torn", sealed(record), torn, machine.Value{Version: record.version, Data: record.data, Next: 8}, false},
		{"a claim that was torn", torn, sealed(claimBlock{}), unread, false},
	} {
		b := append(append([]byte(nil), tt.record...), tt.note...)
		c := decodeClaimed(b)
		clear(b) // it keeps its own copies
		got := c.value(h)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" || c.virgin() != tt.virgin {
			t.Errorf("%s: never claimed: %v, and it reads (-want +got)\n%s", tt.name, c.virgin(), diff)
		}
	}
}
