package flease

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
	"github.com/tenure-lease/tenure/internal/wire"
)

// withSum appends the checksum of a file's bytes.
func withSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, wire.Checksum(b))
}

// TestAStateOutlivesAStartThatFails: a process that cannot listen at the peer's address, because the peer runs, does not
// use up the peer's state.
func TestAStateOutlivesAStartThatFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr, dir := taken.Addr().String(), t.TempDir()
	path := filepath.Join(dir, "flease-1.snapshot")
	if err := os.WriteFile(path, []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Config{Self: addr, Membership: Fixed(Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: addr}}), State: dir, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		p.Close()
		t.Fatal("two processes listen at one address")
	}
	if b, gone := os.ReadFile(path); gone != nil || string(b) != "left" {
		t.Errorf("a start that fails with %q uses up what was left: %q, %v", err, b, gone)
	}
}

// TestWhoseStateItIs: a state is for the same peer of a cluster with the same terms, whole and undamaged.
func TestWhoseStateItIs(t *testing.T) {
	peer := func(id machine.NodeID, cluster string, tmax time.Duration) *Peer {
		return &Peer{self: id, cfg: Config{Cluster: cluster, TMax: tmax, State: t.TempDir(), FS: wal.OS{}, Logger: slog.New(slog.DiscardHandler)}}
	}
	p := peer(1, "c", time.Minute)
	record, err := (&flease.Record{Floor: 5, Highest: 9, Cells: []flease.CellRecord{{Name: "x", Promised: 7}}}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	left := func(by *Peer) []byte { return by.sealSnapshot(record) }
	for name, tt := range map[string]struct {
		b    []byte
		says string // "" if it is taken
	}{
		"its own":              {left(p), ""},
		"another peer's":       {left(peer(2, "c", time.Minute)), "it is another peer's"},
		"of another cluster":   {left(peer(1, "d", time.Minute)), "it is another cluster's"},
		"of other terms":       {left(peer(1, "c", time.Hour)), "it is of a cluster with other terms"},
		"none":                 {nil, "the file is damaged"},
		"only a head":          {p.sealSnapshot(nil), "bad record"},
		"a part":               {left(p)[:len(left(p))-1], "the file is damaged"},
		"more":                 {append(left(p), 0), "the file is damaged"},
		"another last byte":    {func() []byte { b := left(p); b[len(b)-1] ^= 1; return b }(), "the file is damaged"},
		"another first byte":   {func() []byte { b := left(p); b[0] ^= 1; return b }(), "the file is damaged"},
		"another kind of file": {withSum(append([]byte("TENUREXX"), left(p)[8:len(left(p))-4]...)), "it is another peer's"},
	} {
		r, err := p.parseSnapshot(tt.b)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) || err == nil && (r.Floor != 5 || r.Highest != 9 || len(r.Cells) != 1) {
			t.Errorf("a state that is %s: %+v, %v; want %q", name, r, err, tt.says)
		}
		if err := writeFile(p.cfg.FS, p.snapshotPath()+".new", make([]byte, 4096)); err != nil { // as a peer that was killed leaves it
			t.Fatal(err)
		}
		if err := writeFile(p.cfg.FS, p.snapshotPath(), tt.b); err != nil {
			t.Fatal(err)
		}
		got, err := p.restore()
		if err != nil || (len(got) == 1) != (tt.says == "") {
			t.Errorf("a file that is %s: %v, %v; want %q", name, got, err, tt.says)
		}
		if _, err := os.Stat(p.snapshotPath()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that is %s is there still: %v", name, err)
		}
		if again, err := p.restore(); again != nil || err != nil {
			t.Errorf("a file that is %s is used twice: %v, %v", name, again, err)
		}
	}
}

// TestFormOfAState: a state has one form for all versions of the program, because a peer may start with another version.
func TestFormOfAState(t *testing.T) {
	p := &Peer{self: 3, cfg: Config{Cluster: "c", TMax: time.Minute, Epsilon: 2 * time.Second, Replicas: 5}}
	const want = "54454e55524546330300000000000000527b22636c7573746572223a2263222c226c697374223a2235323532383438313834383230383132323932222c226c696665223a302c2277686f6c65223a66616c73652c227265636f726473223a6e756c6c7da1ccc9699c67b5d67265636f7264488f45b4"
	if got := hex.EncodeToString(p.sealSnapshot([]byte("record"))); got != want {
		t.Errorf("a state has the bytes %s, want %s", got, want)
	}
}

// TestBothClocksAtOneMoment: if time passes between the readings of the two clocks, both are read again.
func TestBothClocksAtOneMoment(t *testing.T) {
	now := new(clock.Fake)
	waits := []time.Duration{time.Second, 200 * time.Microsecond, 199 * time.Microsecond, time.Hour}
	wall := time.Unix(1e9, 0)
	c := Config{Clock: now, Wall: func() time.Time {
		now.Advance(waits[0])
		wall = wall.Add(waits[0])
		waits = waits[1:]
		return wall
	}}
	before := now.Now()
	got := c.clocks()
	if len(waits) != 1 || got.Mono != before.Add(time.Second+200*time.Microsecond) || got.Wall != machine.Wall(wall.UnixNano()) {
		t.Errorf("the clocks are read as %v and %v, and %d looks are left of four, want one", got.Mono.Sub(before), got.Wall, len(waits))
	}
}

// TestTheLastMomentOfALease: a lease is over when either clock shows its end.
func TestTheLastMomentOfALease(t *testing.T) {
	for name, tt := range map[string]struct {
		mono, wall time.Duration // until its end
		held       bool
	}{
		"both are before it":           {1, 1, true},
		"the monotonic clock is there": {0, 1, false},
		"the synchronized one is":      {1, 0, false},
		"both are":                     {0, 0, false},
		"one is long before":           {time.Hour, -1, false},
	} {
		now := new(clock.Fake)
		now.Advance(time.Hour)
		wall := time.Unix(1e9, 0)
		p := barePeer(t, Config{Clock: now, Wall: func() time.Time { return wall }})
		x := heldClaim(p.Leaser(), tenure.Claim{}, now.Now().Add(tt.mono), machine.Wall(wall.Add(tt.wall).UnixNano()))
		done := x.Done()
		err := x.Check()
		if (err == nil) != tt.held || err != nil && !errors.Is(err, tenure.ErrLost) || !errors.Is(x.Err(), err) {
			t.Errorf("%s: Check says %v, and Err %v; want that it is held: %v", name, err, x.Err(), tt.held)
		}
		select {
		case <-done:
			if tt.held {
				t.Errorf("%s: it is done", name)
			}
		default:
			if !tt.held {
				t.Errorf("%s: it is over, and not done", name)
			}
		}
	}
}
