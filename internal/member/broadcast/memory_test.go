package broadcast

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// scene is a stage of members with directories, of which messages may be lost.
type scene struct {
	*stage.Stage[abcast.Input, abcast.Outcome]
	t       *testing.T
	founded []machine.NodeID
	members map[machine.NodeID]*acquainted
	dirs    map[machine.NodeID]*life
	seq     map[machine.NodeID]uint64           // records in the log
	said    map[machine.NodeID][]abcast.Outcome // outcomes
	clients uint64
}

// heardBy turns the messages on a stage's wire into inputs of a member.
type heardBy struct {
	*acquainted
	sc            *scene
	noted, forced map[machine.NodeID]uint64 // the number of another's life in the last note, and in the last that was forced
}

// checkForced checks that a member hears of its note only once the note is forced to disk: a loss
// of power takes away records that are merely written.
func (h heardBy) checkForced(p machine.Persist) {
	switch r := p.Record.(type) {
	case note:
		h.noted[r.Node] = r.Number
	case rewrite:
		clear(h.noted)
		maps.Copy(h.noted, recalled(r.records))
	}
	if p.Record != nil && len(p.Then) > 0 {
		maps.Copy(h.forced, h.noted)
	}
	for _, e := range p.Then {
		if b, ok := e.Body.(met); ok && h.forced[e.To] != b.Life {
			h.sc.t.Errorf("member %d tells %d that its life is noted, and nothing has forced the note", h.id, e.To)
		}
	}
}

// recalled returns the members whose life is noted in records.
func recalled(records []any) map[machine.NodeID]uint64 {
	lives := map[machine.NodeID]uint64{}
	for _, r := range records {
		if n, ok := r.(note); ok {
			lives[n.Node] = n.Number
		}
	}
	return lives
}

func (h heardBy) Receive(now machine.Now, e machine.Envelope) {
	if s, ok := e.Body.(sealedBody); ok {
		e.Body = heard(s)
	}
	h.acquainted.Receive(now, e)
}

type sealedBody struct {
	life uint64
	body any
}

func (h heardBy) Ready() machine.Ready[abcast.Outcome] {
	rd := h.acquainted.Ready()
	seal := func(list []machine.Envelope) {
		for i, e := range list {
			if e.To != e.From {
				list[i].Body = sealedBody{h.number(), e.Body}
			}
		}
	}
	seal(rd.Sends)
	for i, p := range rd.Persists {
		h.checkForced(p)
		seal(p.Then)
		if p.Record != nil {
			h.sc.seq[h.id]++
		}
		if w, ok := p.Record.(rewrite); ok {
			rd.Persists[i].Record = sim.Rewrite{Records: w.records}
		}
	}
	h.sc.said[h.id] = append(h.sc.said[h.id], rd.Outcomes...)
	return rd
}

func newScene(t *testing.T, founders ...machine.NodeID) *scene {
	return &scene{
		Stage: stage.New[abcast.Input, abcast.Outcome](t), t: t, founded: founders, members: map[machine.NodeID]*acquainted{}, dirs: map[machine.NodeID]*life{},
		seq: map[machine.NodeID]uint64{}, said: map[machine.NodeID][]abcast.Outcome{},
	}
}

// start gives a member its next life in its directory.
func (sc *scene) start(id machine.NodeID, join bool) {
	sc.t.Helper()
	cfg := Config{ID: id, Group: 1, Members: map[machine.NodeID]string{}, Dir: "x", Timeout: time.Second, Join: join}
	for _, m := range sc.founded {
		cfg.Members[m] = "x:1"
	}
	var records []any
	dir := sc.dirs[id]
	if dir == nil {
		dir = &life{}
		sc.dirs[id] = dir
	} else {
		records = sc.Durable(id)
	}
	sc.seq[id]++
	dir.addBirth(sc.seq[id])
	a := &acquainted{
		self: introduction{Dir: dir.Dir, Life: dir.N, Lives: dir.Lives}, id: id, every: time.Second, need: cfg.needed(),
		mark: func() uint64 { return sc.seq[id] }, logDropped: func(machine.NodeID, uint64, error) {},
		notes: map[machine.NodeID]note{}, loose: map[machine.NodeID]bool{}, heard: map[machine.NodeID]uint64{}, known: map[machine.NodeID]uint64{}, met: map[machine.NodeID]noted{},
	}
	a.others = func() (ids []machine.NodeID) {
		for _, m := range slices.Sorted(maps.Keys(sc.members)) {
			if m != id {
				ids = append(ids, m)
			}
		}
		return ids
	}
	m, err := abcast.New(cfg.machine(dir.N), a.recall(records))
	if err != nil {
		sc.t.Fatal(err)
	}
	a.Machine, sc.members[id], sc.said[id] = m, a, nil
	a.counts = a.counts || a.need == 0
	sc.Start(id, heardBy{a, sc, recalled(records), recalled(records)}) // the record of a start is forced
}

// empty takes a member's directory away.
func (sc *scene) empty(id machine.NodeID) {
	sc.Crash(id)
	sc.Rewrite(id, nil)
	delete(sc.dirs, id)
	sc.seq[id] = 0
}

// copyDir returns a function that restores a member's directory as it is now.
func (sc *scene) copyDir(id machine.NodeID) (restore func()) {
	dir, seq, records := *sc.dirs[id], sc.seq[id], sc.Durable(id)
	return func() {
		sc.Crash(id)
		sc.Rewrite(id, records)
		sc.dirs[id], sc.seq[id] = &dir, seq
	}
}

// run lets time pass, with messages from and to some members lost.
func (sc *scene) run(times int, away ...machine.NodeID) {
	sc.t.Helper()
	lost := func(e machine.Envelope) bool {
		return slices.Contains(away, e.From) || slices.Contains(away, e.To)
	}
	for range 10 * times {
		sc.Wait(time.Second / 10)
		for range 1000 {
			sc.Wire = slices.DeleteFunc(sc.Wire, lost)
			if len(sc.Wire) == 0 {
				break
			}
			e := sc.Wire[0]
			sc.Wire = sc.Wire[1:]
			sc.Receive(e)
		}
	}
}

func (sc *scene) broadcast(id machine.NodeID, payload string) {
	sc.clients++
	sc.Step(id, abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, sc.clients), Seq: 1, Payload: []byte(payload)}})
}

// delivered is the list of messages that a member has delivered in this life.
func (sc *scene) delivered(id machine.NodeID) (payloads []string) {
	for _, out := range sc.said[id] {
		if d, ok := out.(abcast.Delivered); ok {
			payloads = append(payloads, string(d.Payload))
		}
	}
	return payloads
}

func (sc *scene) wantDelivered(id machine.NodeID, payloads ...string) {
	sc.t.Helper()
	if got := sc.delivered(id); !slices.Equal(got, payloads) {
		sc.t.Errorf("member %d delivers %q, want %q", id, got, payloads)
	}
}

// refused reports whether a member was told by another that it has forgotten something.
func (sc *scene) refused(id machine.NodeID) bool {
	return slices.ContainsFunc(sc.said[id], func(out abcast.Outcome) bool { _, ok := out.(forgotten); return ok })
}

func three(t *testing.T) *scene {
	sc := newScene(t, 1, 2, 3)
	for _, id := range sc.founded {
		sc.start(id, false)
	}
	return sc
}

// A new directory takes no part before more than half of the others have noted it: of three
// founders all have to be there at the first start.
func TestFirstStart(t *testing.T) {
	sc := three(t)
	sc.run(5, 3)
	sc.broadcast(1, "early")
	sc.run(5, 3)
	if sc.members[1].counts || sc.members[2].counts || len(sc.delivered(1)) > 0 {
		t.Error("two of three new directories count, and one of the three may be a member's second")
	}
	sc.run(5)
	sc.broadcast(1, "a")
	sc.run(5)
	sc.wantDelivered(1, "a")
	sc.wantDelivered(3, "a")
	for _, id := range sc.founded { // a majority is enough from now on
		sc.Crash(id)
		sc.start(id, false)
	}
	sc.run(5, 3)
	sc.broadcast(1, "b")
	sc.run(5, 3)
	if got := sc.delivered(1); len(got) == 0 || got[len(got)-1] != "b" {
		t.Errorf("member 1 delivers %q with one of two others, want b", got)
	}
	five := newScene(t, 1, 2, 3, 4, 5)
	for _, id := range five.founded {
		five.start(id, false)
	}
	five.run(5, 4, 5)
	if five.members[1].counts {
		t.Error("a directory that two of four others have noted counts")
	}
	five.run(5, 5)
	if !five.members[1].counts {
		t.Error("a directory that three of four others have noted does not count")
	}
}

// Promises of a directory that was emptied are not made again: the order of 1 and 3 stays, and
// 2 and the emptied 3 order nothing else.
func TestEmptiedDirectory(t *testing.T) {
	sc := three(t)
	sc.run(5)
	sc.broadcast(1, "a")
	sc.run(5, 2)
	sc.wantDelivered(1, "a")
	sc.wantDelivered(3, "a")
	sc.empty(3)
	sc.start(3, false)
	sc.broadcast(2, "b")
	sc.broadcast(3, "c")
	sc.run(10, 1)
	if got := append(sc.delivered(2), sc.delivered(3)...); len(got) > 0 {
		t.Errorf("two orders: member 1 has delivered a at position 1, and 2 and the emptied 3 %q", got)
	}
	if !sc.refused(3) {
		t.Error("the emptied member was not told that it has forgotten what it promised")
	}
	if known := sc.members[2].known[3]; known != 0 {
		t.Errorf("member 2 listens to life %d of the emptied member", known)
	}
}

// A copy of a directory from before a life, or within one, is noticed by those that have heard
// of more.
func TestOlderCopy(t *testing.T) {
	for name, tc := range map[string]struct {
		restarts int // of the original behind the copy
		starts   int // of the copy
	}{"of a life before": {2, 1}, "with as many lives": {1, 2}, "with more lives": {1, 5}, "of the same life": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			sc := three(t)
			sc.run(5)
			sc.broadcast(1, "a")
			sc.run(5)
			restore := sc.copyDir(3)
			for range tc.restarts {
				sc.Crash(3)
				sc.start(3, false)
				sc.run(3)
			}
			sc.broadcast(1, "b")
			sc.run(3)
			restore()
			for range tc.starts {
				sc.Crash(3)
				sc.start(3, false)
			}
			sc.run(3)
			if !sc.refused(3) || sc.members[1].known[3] != 0 || sc.members[2].known[3] != 0 {
				t.Errorf("an older copy was not noticed: refused: %v, listened to in life %d and %d", sc.refused(3), sc.members[1].known[3], sc.members[2].known[3])
			}
		})
	}
}

// A member that starts again with its directory is listened to, and so are those that it has
// not heard of for many of their lives.
func TestDirectoryThatGoesOn(t *testing.T) {
	sc := three(t)
	sc.run(5)
	for i := range livesKept + 10 {
		sc.Crash(3)
		sc.start(3, false)
		if i%8 == 0 {
			sc.broadcast(2, "x")
		}
		sc.run(2, 1)
	}
	sc.run(5)
	sc.broadcast(3, "y")
	sc.run(20)
	if got := sc.delivered(1); len(got) == 0 || got[len(got)-1] != "y" || sc.refused(3) {
		t.Errorf("member 1 has delivered %q, and 3 is refused: %v", got, sc.refused(3))
	}
}

// Notes outlive restarts, and logs that are rewritten.
func TestNotesAreKept(t *testing.T) {
	sc := three(t)
	sc.run(5)
	sc.broadcast(1, "a")
	sc.run(5)
	sc.Step(2, abcast.Trim{Position: 1})
	sc.Crash(2)
	sc.start(2, false)
	if sc.members[2].Base().Position != 1 {
		t.Fatal("the log was not rewritten")
	}
	if !sc.members[2].counts || len(sc.members[2].notes) != 2 {
		t.Fatalf("behind a rewriting member 2 counts: %v, and has noted %v", sc.members[2].counts, sc.members[2].notes)
	}
	sc.empty(3)
	sc.start(3, false)
	sc.run(5, 1)
	if !sc.refused(3) {
		t.Error("member 2 has started again, and does not know the directory that member 3 had")
	}
}

// One that joins is noted by those that were away when it came, before they count on it.
func TestNotesAreToldOn(t *testing.T) {
	sc := three(t)
	sc.run(5)
	sc.founded = append(sc.founded, 4)
	sc.start(4, true)
	sc.run(5, 3)
	if !sc.members[4].counts {
		t.Fatal("a member that two of three have noted does not count")
	}
	sc.run(5, 4)
	sc.empty(4)
	sc.start(4, true)
	sc.run(5, 1, 2)
	if sc.members[4].counts || !sc.refused(4) {
		t.Error("member 3 was away when 4 came, and has not heard of its directory from 1 and 2")
	}
}

// Messages of a stranger that reaches the port, and knows no life's number, are neither noted
// nor listened to, and end no member.
func TestStrangers(t *testing.T) {
	sc := three(t)
	sc.run(5)
	notes := maps.Clone(sc.members[1].notes)
	strange := introduction{Dir: 9, Life: 99, Mark: 1 << 60, Lives: []birth{{7, 1}}, Notes: []note{{3, 9, 99, 9, 9}}}
	says := func(life uint64, body any) {
		sc.Receive(machine.Envelope{From: 2, To: 1, Body: sealedBody{life, body}})
	}
	says(7, strange)
	strange.To = 7
	says(7, strange)
	says(8, strange) // not the life that it names
	strange.To = sc.members[1].number()
	says(8, strange)
	if n := sc.members[1].heard[2]; n == 8 {
		t.Error("strangers: an introduction is taken from another life than it is of")
	}
	says(7, forgot{Life: 7})
	says(7, met{Life: 7})
	says(7, abcast.Submit{Messages: []abcast.Message{{Client: abcast.NewClient(0, 77), Seq: 1, Payload: []byte("strange")}}})
	says(7, want{1})
	for _, out := range sc.said[1] {
		switch out.(type) {
		case wanted, forgotten, refuted:
			t.Errorf("strangers: member 1 says %+v", out)
		}
	}
	sc.run(5)
	for id, n := range sc.members[1].notes {
		if had := notes[id]; n.Dir != had.Dir || n.Life != had.Life || n.Number != had.Number || n.Mark > 1<<40 {
			t.Errorf("strangers: member 1 has noted %+v, and had %+v", n, had)
		}
	}
	sc.broadcast(2, "a")
	sc.run(5)
	for _, id := range sc.founded {
		sc.wantDelivered(id, "a")
	}
	for name, in := range map[string]introduction{
		"no directory": {Life: 1, Lives: []birth{{7, 1}}}, "no life": {Dir: 1, Life: 1}, "more than it had": {Dir: 1, Life: 1, Lives: []birth{{7, 1}, {8, 2}}},
		"not in order": {Dir: 1, Life: 2, Lives: []birth{{7, 2}, {8, 2}}}, "without a number": {Dir: 1, Life: 2, Lives: []birth{{0, 1}, {8, 2}}},
		"too many lives": {Dir: 1, Life: 900, Lives: make([]birth, livesKept+1)}, "too many notes": {Dir: 1, Life: 1, Lives: []birth{{7, 1}}, Notes: make([]note, notesMax+1)},
	} {
		if in.possible() {
			t.Errorf("strangers: %s: an introduction is taken", name)
		}
	}
}

// A note is on disk before its member is told, and a member counts when that is on disk.
func TestNotedBeforeItIsTold(t *testing.T) {
	sc := newScene(t, 1, 2)
	sc.start(1, false)
	sc.start(2, false)
	sc.Hold(1)
	sc.run(5)
	if sc.members[2].counts {
		t.Error("member 2 counts, and 1 has not noted it on disk")
	}
	sc.Sync(1)
	sc.Hold(2)
	sc.run(5)
	if sc.members[2].counts {
		t.Error("member 2 counts, and has not noted on disk that it does")
	}
}

// A note that came from a third member is not forced, and counts when it is: its member is told
// of it behind that.
func TestNotesFromAThirdAreForced(t *testing.T) {
	sc := newScene(t, 1, 2, 3)
	sc.start(1, false)
	sc.start(3, false)
	sc.run(5)
	sc.start(2, false)
	sc.run(5, 3) // 1 tells 2 of its note on 3
	if n := sc.members[2].notes[3]; n.Dir != sc.dirs[3].Dir {
		t.Fatalf("member 2 has noted %+v of 3, want what 1 has told it", n)
	}
	sc.run(5)
	if !sc.members[3].counts {
		t.Error("all have noted member 3, and it does not count")
	}
}

// The journal begins a life with each start, forces the record of it, and knows how far it is.
func TestLives(t *testing.T) {
	disk := waltest.NewDisk()
	synced := false
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "a:1"}, Dir: "/data"}
	var j *journal
	forced := uint64(0)
	opens := func() *journal {
		t.Helper()
		fs := disk.FS()
		synced = false
		fs.Fault = func(op, path string) error {
			if op == "sync" && j != nil && j.mark.Load() > forced {
				t.Errorf("the mark says %d before the disk has what is behind %d", j.mark.Load(), forced)
			}
			synced = op == "sync" || synced && op != "write"
			return nil
		}
		cfg.WAL = wal.Options{FS: fs, SegmentBytes: 1 << 12}
		j, _, err := openJournal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	var before life
	for n := uint64(1); n <= livesKept+3; n++ {
		j = opens()
		forced = j.mark.Load()
		if !synced {
			t.Fatalf("life %d is not on disk, and others may hear of it", n)
		}
		self := j.self
		last := self.Lives[len(self.Lives)-1]
		if self.N != n || self.Dir == 0 || before.Dir != 0 && self.Dir != before.Dir || last.At != j.log.LastSeq() || j.mark.Load() != last.At {
			t.Fatalf("life %d: %+v, mark %d, behind %+v", n, self, j.mark.Load(), before)
		}
		if want := before.Lives; len(want) < livesKept && !slices.Equal(self.Lives[:len(want)], want) || len(self.Lives) > livesKept {
			t.Fatalf("life %d has had %v, and before %v", n, self.Lives, want)
		}
		if slices.ContainsFunc(before.Lives, func(b birth) bool { return b.Number == last.Number }) || last.Number == 0 {
			t.Fatalf("life %d has number %x, which is none, or that of another", n, last.Number)
		}
		before = self
		if err := j.write([]any{note{Node: 2}}, false); err != nil || j.mark.Load() != last.At {
			t.Fatalf("%v: what was not forced has moved the mark to %d", err, j.mark.Load())
		}
		if err := j.write([]any{counted{}}, true); err != nil || j.mark.Load() != j.log.LastSeq() {
			t.Fatalf("%v: the mark is %d, and the log was forced at %d", err, j.mark.Load(), j.log.LastSeq())
		}
		forced = j.mark.Load()
		if err := j.log.Close(); err != nil {
			t.Fatal(err)
		}
		disk.Exit()
		j = nil
	}
}

// A member's request in one life is not its request in another: consensus tells the lives
// apart.
func TestRequestsOfEachLife(t *testing.T) {
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir(),
		Algorithm: func(c *abcast.Config) { c.Consensus.Lambda, c.Consensus.Fixed = 1, true }}
	for range 3 {
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := n.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j, records, err := openJournal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer j.log.Close()
	var lives []uint64
	for _, r := range records {
		if p, ok := r.(asynclease.Permitted); ok && !slices.Contains(lives, p.Request.Life) {
			lives = append(lives, p.Request.Life)
		}
	}
	if !slices.Equal(lives, []uint64{1, 2, 3}) {
		t.Errorf("three starts asked for leases in the lives %v, want 1, 2 and 3", lives)
	}
}

// The process of a member that has forgotten promises gets an error that names the remedy.
func TestForgottenNode(t *testing.T) {
	n := minority(t)
	n.deliver(2, [][]byte{madeUp(2, forgot{Life: n.self, Dir: 5, Lives: 3, Mark: 9})})
	ctx, cancel := context.WithCancel(patience.Soon(t))
	defer cancel()
	if _, err := n.Broadcast(ctx, nil); !errors.Is(err, ErrForgotten) || !strings.Contains(err.Error(), "add another") || !strings.Contains(err.Error(), "member 2 has noted directory 5 with 3 starts and 9 records") {
		t.Errorf("got %v, want ErrForgotten that names the member that noticed, and says what to do", err)
	}
	for _, err := range n.Deliver(ctx, 1) {
		if !errors.Is(err, ErrForgotten) {
			t.Errorf("Deliver: got %v, want ErrForgotten", err)
		}
	}
	patience.Until(t, "nobody hears it any more", func() bool { return errors.Is(n.peers.SetPeers(nil, nil), peer.ErrClosed) })
}

// A member that another one contradicts goes on; one that most contradict ends.
func TestContradictedNode(t *testing.T) {
	n := minority(t)
	for _, outvoted := range []bool{false, true} {
		n.handle([]abcast.Outcome{abcast.Contradicted{From: 2, Position: 5, Outvoted: outvoted}})
		if err := n.reason(); errors.Is(err, ErrOrder) != outvoted {
			t.Errorf("contradicted by more than half of the others: %v; the member ends because of %v", outvoted, err)
		}
	}
}

func TestRefutes(t *testing.T) {
	n := note{Node: 2, Dir: 5, Life: 3, Number: 30, Mark: 8}
	lives := []birth{{10, 1}, {20, 4}, {30, 6}}
	later := append(slices.Clone(lives), birth{40, 9})
	for name, tc := range map[string]struct {
		in   introduction
		want string // "" if it is the same directory
	}{
		"as it was":          {introduction{Dir: 5, Life: 3, Lives: lives}, ""},
		"further":            {introduction{Dir: 5, Life: 4, Lives: later}, ""},
		"not shown":          {introduction{Dir: 5, Life: 5, Lives: []birth{{40, 9}, {50, 11}}}, ""},
		"another":            {introduction{Dir: 6, Life: 3, Lives: lives}, "another one"},
		"an older one":       {introduction{Dir: 5, Life: 2, Lives: lives[:2]}, "has had 2 starts, and 3"},
		"another life":       {introduction{Dir: 5, Life: 3, Lives: []birth{{10, 1}, {20, 4}, {31, 6}}}, "start 3 was another"},
		"cut off":            {introduction{Dir: 5, Life: 4, Lives: append(slices.Clone(lives), birth{40, 8})}, "ended at record 7"},
		"cut off, not shown": {introduction{Dir: 5, Life: 5, Lives: []birth{{40, 8}, {50, 11}}}, "ended at record 7"},
	} {
		if err := n.checkDirectory(tc.in); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: refuted with %v, want %q", name, err, tc.want)
		}
	}
}
