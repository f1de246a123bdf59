package broadcast

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// reopens opens a directory's log as a start of the member does, and wants records.
func reopen(t *testing.T, cfg Config, life uint64, want ...any) *journal {
	t.Helper()
	j, records, err := openJournal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("start %d: the log has %+v, want %+v", life, records, want)
	}
	if j.self.N != life {
		t.Errorf("start %d is numbered %d", life, j.self.N)
	}
	return j
}

func (j *journal) close(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.log.Close(); err != nil {
		t.Fatal(err)
	}
}

func records(cns ...uint64) (records []any) {
	for _, cn := range cns {
		records = append(records, fastct.Entered{CN: cn, Round: 3})
	}
	return records
}

func TestLogIsRewritten(t *testing.T) {
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()}
	j := reopen(t, cfg, 1)
	j.close(t, j.write(append(records(1, 2), rewrite{records(20)}, records(3)[0]), true))
	j = reopen(t, cfg, 2, records(20, 3)...)
	j.close(t, j.write(records(4), true))
	reopen(t, cfg, 3, records(20, 3, 4)...).close(t, nil)
}

// A crash may cut a rewriting short. Then the records from before count, and so do later ones,
// in that life and in later lives.
func TestRewritingCutShort(t *testing.T) {
	whole := []any{life{N: 1}, abcast.Base{Position: 9}, fastct.Entered{CN: 20, Round: 3}}
	for _, n := range []int{0, 1, len(whole)} {
		cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()}
		j := reopen(t, cfg, 1)
		if err := j.write(records(1, 2), true); err != nil {
			t.Fatal(err)
		}
		if _, err := j.log.Append(wal.Record{Kind: kindBegin}); err != nil {
			t.Fatal(err)
		}
		for _, r := range whole[:n] {
			if err := j.append(r); err != nil {
				t.Fatal(err)
			}
		}
		j.close(t, j.log.Sync())
		j = reopen(t, cfg, 2, records(1, 2)...)
		j.close(t, j.write(records(3), true))
		j = reopen(t, cfg, 3, records(1, 2, 3)...)
		j.close(t, j.write([]any{rewrite{records(30)}}, true))
		reopen(t, cfg, 4, records(30)...).close(t, nil)
	}
}

// A start that was killed before it had a record leaves the next one to be the first.
func TestKilledAtTheFirstStart(t *testing.T) {
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()}
	reopen(t, cfg, 1).close(t, nil)
	for _, members := range []map[machine.NodeID]string{nil, {2: "127.0.0.1:2"}} {
		other := cfg
		other.Members = members
		if n, err := Start(other); err == nil {
			t.Errorf("with %v member 1 starts in the group %v", members, n.Members())
			n.Close()
		} else if !strings.Contains(err.Error(), "is not one of the group") {
			t.Errorf("with %v: got %v", members, err)
		}
	}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Broadcast(patience.Soon(t), nil); err != nil {
		t.Error(err)
	}
}

// The records that a rewriting replaces go when the rewriting is on disk, and not before.
func TestRewritingIsOnDiskFirst(t *testing.T) {
	for seed := range uint64(20) {
		disk := waltest.NewDisk()
		cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: "/data"}
		fs := disk.FS()
		cfg.WAL = wal.Options{FS: fs, SegmentBytes: 1 << 10}
		j, _, err := openJournal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var before []any
		for cn := range uint64(40) {
			r := fastct.Adopted{CN: cn + 1, Round: 3, Value: make([]byte, 100)}
			before = append(before, r)
			if err := j.write([]any{r}, true); err != nil {
				t.Fatal(err)
			}
		}
		after := []any{fastct.Adopted{CN: 50, Round: 3, Value: []byte("anew")}}
		stops := 1 + int(seed)%4 // the loss of power comes with one of the calls
		fs.Fault = func(op, path string) error {
			if op == "sync" || op == "remove" || op == "syncdir" {
				if stops--; stops == 0 {
					disk.Kill()
				}
			}
			return nil
		}
		_ = j.write([]any{rewrite{after}}, true)
		disk.Kill()
		disk.Crash(rand.New(rand.NewPCG(seed, 1)))
		cfg.WAL.FS = disk.FS()
		again, records, err := openJournal(cfg)
		if err != nil {
			t.Fatalf("rewriting, seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(records, before) && !reflect.DeepEqual(records, after) {
			t.Errorf("rewriting, seed %d: the log has %d records, want the %d of before or the one in their place", seed, len(records), len(before))
		}
		if got, was := again.self, j.self; got.N != 2 || got.Dir != was.Dir || len(got.Lives) != 2 || got.Lives[0] != was.Lives[0] {
			t.Errorf("rewriting, seed %d: the next life is %+v, behind %+v", seed, got, was)
		}
		again.close(t, nil)
	}
}

// A log whose old records cannot be removed says so: its member cannot rely on the disk any more.
func TestARewritingThatCannotBeReleased(t *testing.T) {
	fs := waltest.NewDisk().FS()
	j, _, err := openJournal(aloneConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	defer j.log.Close()
	for cn := range uint64(3) { // each has a file of its own
		if err := j.write([]any{fastct.Adopted{CN: cn + 1, Round: 3, Value: make([]byte, 3<<10)}}, true); err != nil {
			t.Fatal(err)
		}
	}
	fs.Fault = func(op, path string) error {
		if op == "remove" {
			return errBroken
		}
		return nil
	}
	if err := j.write([]any{rewrite{records(50)}}, true); !errors.Is(err, errBroken) {
		t.Errorf("a log is written anew, and the old one cannot be removed: got %v, want %v", err, errBroken)
	}
}

// With many clients a Trim of little is not worth writing the log anew, with all of them.
func TestALogWithManyClientsIsSeldomWrittenAnew(t *testing.T) {
	n, _ := aloneOn(t, 0)
	const clients = 1100
	all := n.NewClient()
	var calls sync.WaitGroup
	for i := range clients {
		calls.Go(func() {
			client := all
			client[15], client[14] = byte(i), byte(i>>8)
			if _, err := n.BroadcastAs(patience.Soon(t), client, 1, nil); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for at := Position(clients); at <= clients+1; at++ { // the state before the first Trim has no clients
		if err := errors.Join(n.saveState(at), n.Trim(at)); err != nil {
			t.Fatal(err)
		}
		var base uint64
		n.driver.Do(func() { base = n.machine.Base().Position })
		if base != clients {
			t.Errorf("all messages up to %d are trimmed, and the log begins behind position %d, want %d", at, base, clients)
		}
		if _, err := n.Barrier(patience.Soon(t)); err != nil {
			t.Fatal(err)
		}
	}
}
