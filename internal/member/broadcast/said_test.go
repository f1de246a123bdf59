package broadcast

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

var threeOthers = map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3", 4: "127.0.0.1:4"}

// The log names the member that an outcome is about, and that member's message is counted. The error with which a
// node ends names the member that has told of the end.
func TestWhatIsSaidOfOutcomes(t *testing.T) {
	for what, tt := range map[string]struct {
		out     abcast.Outcome
		says    string // a line of the log
		refused machine.NodeID
		ends    func(n *Node) string
	}{
		"a directory that lacks promises": {out: refuted{node: 3, err: errBroken}, says: `put its newest directory back, or remove it from the group and add another with a new ID" member=3 error="the disk is broken"`, refused: 3},
		"another order":                   {out: abcast.Contradicted{From: 4, Position: 5}, says: `one of the two directories has lost records" member=4 position=5`},
		"another order, of most": {out: abcast.Contradicted{From: 4, Position: 5, Outvoted: true}, says: "member=4 position=5",
			ends: func(*Node) string { return "up to position 5, says member 4" }},
		"an impossible message": {out: abcast.Impossible{From: 2, Err: errBroken}, says: `from=2 error="the disk is broken" dropped=1`, refused: 2},
		"forgotten promises": {out: forgotten{by: 2, forgot: forgot{Life: 8, Dir: 5, Lives: 3, Mark: 9}}, ends: func(n *Node) string {
			return fmt.Sprintf("member 2 has noted directory 5 with 3 starts and 9 records, and this is %x with 1 starts", n.journal.self.Dir)
		}},
		"it takes part too late": {out: awaits{whom: []machine.NodeID{3}}, says: `needed=2 "waits for"=[3]`},
	} {
		var log written
		n := minorityOf(t, threeOthers, slog.New(slog.NewTextHandler(&log, nil)))
		n.handle([]abcast.Outcome{tt.out})
		if !strings.Contains(log.String(), tt.says) {
			t.Errorf("%s: the log has\n%s, want %s", what, log.String(), tt.says)
		}
		for id := range threeOthers {
			want := uint64(0)
			if id == tt.refused {
				want = 1
			}
			if got := n.refused.counts()[id]; got != want {
				t.Errorf("%s: %d messages of member %d are counted as dropped, want %d", what, got, id, want)
			}
		}
		if err := n.reason(); (err == nil) != (tt.ends == nil) || err != nil && !strings.Contains(err.Error(), tt.ends(n)) {
			t.Errorf("%s: the node ends with %v", what, err)
		}
	}
}

// The log says how many of the others, this one aside, say that it was removed.
func TestTheLogCountsWhoSaysItWasRemoved(t *testing.T) {
	var log written
	n := minorityOf(t, threeOthers, slog.New(slog.NewTextHandler(&log, nil)))
	n.noteRemovalClaim(9) // a stranger
	n.noteRemovalClaim(3)
	if want := `member=3 "say so"=1 others=3`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has\n%s, want %s", log.String(), want)
	}
}

// While too few others have noted its directory, a member says how many have to, of which members, and with which
// it is not connected.
func TestWaitsToBeNoted(t *testing.T) {
	n := minorityOf(t, threeOthers, slog.New(slog.DiscardHandler))
	n.counts = make(chan struct{}) // as that of a directory that too few have noted
	n.mu.Lock()
	n.group.Members = n.group.Members[:3]
	n.mu.Unlock()
	const want = "takes part when 2 others have noted it; of [1 2 3 4] it is not connected with [2 3]"
	if err := n.Waiting(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it waits because of %v, want that it %s", err, want)
	}
}

// The error about an address names the member that is there, and the one that cannot be.
func TestWhatIsSaidOfAddresses(t *testing.T) {
	n := minorityOf(t, threeOthers, slog.New(slog.DiscardHandler))
	_, add := n.AddMember(patience.Soon(t), 7, "127.0.0.1:3")
	_, replace := n.ReplaceMember(patience.Soon(t), 4, 7, "127.0.0.1:3")
	_, nowhere := n.AddMember(patience.Soon(t), 7, "nowhere")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{add, "member 3 is at 127.0.0.1:3 already, and member 7 cannot be there, too"},
		{replace, "member 3 is at 127.0.0.1:3 already, and member 7 cannot be there, too"},
		{nowhere, `member 7 at "nowhere": want host:port`},
	} {
		if !errors.Is(tt.err, ErrChange) || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("got %v, want ErrChange that says %q", tt.err, tt.want)
		}
	}
}

// A start whose configuration names other members than the log says so, once it knows of any.
func TestTheLogNamesOtherMembers(t *testing.T) {
	const line = "the members in the log count"
	fs := waltest.NewDisk().FS()
	for _, tt := range []struct {
		what  string
		named map[machine.NodeID]string
		join  bool
		says  string
	}{
		{"a founder", map[machine.NodeID]string{1: "127.0.0.1:1"}, false, ""},
		{"the same again", map[machine.NodeID]string{1: "127.0.0.1:1"}, false, ""},
		{"others", map[machine.NodeID]string{1: "127.0.0.1:1", 2: "127.0.0.1:2"}, false, line + `, and Config.Members names others" members=[1] named="[1 2]"`},
		{"one that joins", map[machine.NodeID]string{2: "127.0.0.1:2"}, true, ""},
	} {
		var log written
		cfg := aloneConfig(fs)
		cfg.Members, cfg.Logger, cfg.Join = tt.named, slog.New(slog.NewTextHandler(&log, nil)), tt.join
		if tt.join {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			cfg.WAL, cfg.Listener = wal.Options{FS: waltest.NewDisk().FS()}, ln
		}
		n, err := Start(cfg)
		if err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if _, err := n.Barrier(patience.Soon(t)); !tt.join && err != nil {
			t.Fatal(err)
		}
		n.Close()
		if got := log.String(); strings.Contains(got, line) != (tt.says != "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s are named: the log has\n%s, want %q", tt.what, got, tt.says)
		}
	}
}

// A member that was removed may be the one that has what is lacked: it is asked, too, as long as it is needed.
func TestRemovedMembersAreAsked(t *testing.T) {
	var log written
	n := minorityOf(t, threeOthers, slog.New(slog.NewTextHandler(&log, nil)))
	n.mu.Lock()
	n.group.Removed = []abcast.Member{{ID: 8, Address: "127.0.0.1:8"}}
	n.mu.Unlock()
	for range 4 {
		n.askForMissing(abcast.Lacks{From: 2, Position: 9}, 1)
	}
	if got := log.String(); !strings.Contains(got, "member=8 from=1 to=9") {
		t.Errorf("member 8 was removed and is needed yet; asked are\n%s", got)
	}
}

// An introduction that cannot be meant changes nothing: neither what is noted, nor whom this member listens to, and
// it is not answered.
func TestIntroductionsThatCannotBe(t *testing.T) {
	lives := func(change func(l []birth)) []birth { l := slices.Clone(livesOf2); change(l); return l }
	for what, change := range map[string]func(in *introduction){
		"no directory":                      func(in *introduction) { in.Dir = 0 },
		"a life without a number":           func(in *introduction) { in.Lives = lives(func(l []birth) { l[1].Number = 0 }) },
		"lives out of order":                func(in *introduction) { in.Lives = lives(func(l []birth) { l[1].At = 6 }) },
		"a life at record 0":                func(in *introduction) { in.Lives = lives(func(l []birth) { l[0].At = 0 }) },
		"more lives than it has had":        func(in *introduction) { in.Life = 2 },
		"more notes than a member may send": func(in *introduction) { in.Notes = make([]note, notesMax+1) },
	} {
		a := acquaintedOne(t)
		delete(a.notes, 2)
		delete(a.known, 2)
		in := introduction{To: 51, Dir: 20, Life: 3, Mark: 8, Lives: livesOf2}
		change(&in)
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, in}})
		if rd := a.Ready(); len(a.notes) > 0 || a.known[2] != 0 || len(rd.Sends)+len(rd.Persists)+len(rd.Outcomes) > 0 {
			t.Errorf("%s: noted are %v, listened to is life %d, and it leads to %+v; want nothing", what, a.notes, a.known[2], rd)
		}
	}
}

// A node is told once that a note is forced, and once which members it listens to. Of the answers of another member the
// latest counts.
func TestIntroducedAgain(t *testing.T) {
	a := acquaintedOne(t)
	delete(a.known, 2)
	a.loose[2] = true
	told := 0
	for again := range 3 {
		in := introduction{To: 51, Dir: 20, Life: 3, Mark: 8, Lives: livesOf2}
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, in}})
		rd := a.Ready()
		told += len(rd.Outcomes)
		if forced := len(rd.Persists) > 0 && rd.Persists[0].Record != nil; forced != (again == 0) {
			t.Errorf("introduction %d: its note is written: %v, want that at the first only", again+1, forced)
		}
	}
	if told != 1 {
		t.Errorf("the node is told %d times that it listens to member 2, want once", told)
	}
	for _, mark := range []uint64{7, 9} {
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, met{Life: 51, Mark: mark}}})
	}
	if got := a.met[2]; got != (noted{30, 9}) {
		t.Errorf("member 2 has noted mark 7, and then 9; known is %+v", got)
	}
}

// Introductions have the figures of their node: how often it introduces itself, and in which life.
func TestAcquaintanceOfANode(t *testing.T) {
	n := minorityOf(t, threeOthers, slog.New(slog.DiscardHandler), func(c *Config) { c.Timeout = 10 * time.Second })
	n.Close()              // nothing else looks at it any more
	n.journal.self.N = 100 // more than are shown
	a := n.acquaintance()
	if a.every != 2*time.Second || a.id != 1 || a.need != 2 || a.self.Life != 100 || a.self.Dir != n.journal.self.Dir || n.self != a.number() {
		t.Errorf("member %d in life %d of directory %x introduces itself each %v until %d have noted it; want 1, 100 of %x, 2 s, 2", a.id, a.self.Life, a.self.Dir, a.every, a.need, n.journal.self.Dir)
	}
	alone, _ := aloneOn(t, 0)
	alone.Close()
	if a := alone.acquaintance(); a.every != 0 || a.need != 0 {
		t.Errorf("one that is alone introduces itself each %v until %d have noted it, want never", a.every, a.need)
	}
}

// The error about a snapshot's position says what there is.
func TestWhatIsSaidOfASnapshot(t *testing.T) {
	n, _ := aloneOn(t, 3)
	if err := n.saveState(2); err != nil {
		t.Fatal(err)
	}
	const want = "a snapshot of 4, and 3 are delivered, the last snapshot is of 2"
	if err := n.saveState(4); !errors.Is(err, ErrPosition) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want ErrPosition that says %q", err, want)
	}
}
