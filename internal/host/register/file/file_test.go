package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

var testHeader = register.Header{
	Set: machine.ID{1, 2, 3}, Of: 3, Index: 1,
	Term: 10 * time.Second, Delay: 100 * time.Millisecond, Drift: 200,
}

var testWait = (&storeHeader{Header: testHeader}).wait()

// testClock goes on when told.
type testClock struct{ at atomic.Int64 }

func (c *testClock) now() machine.Mono { return machine.Mono(c.at.Load()) }

func (c *testClock) pass(d time.Duration) { c.at.Add(int64(d)) }

// bench is a directory with a store in it, and the clock of all handles.
type bench struct {
	t     testing.TB
	dir   string
	clock testClock
	// obsolete names and writers, as "name" or "name/writer".
	obsolete map[string]bool
	files    files
}

func newBench(t testing.TB, opts InitOptions) *bench {
	b := &bench{t: t, dir: t.TempDir(), obsolete: map[string]bool{}}
	if err := Init(b.dir, testHeader, opts); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) options() Options {
	return Options{Clock: b.clock.now, Holder: "a test", Obsolete: func(name string, v machine.Value, w machine.ID) bool {
		return b.obsolete[name] || b.obsolete[fmt.Sprint(name, "/", w[0])]
	}}
}

// open opens another handle, through b.files if that is set.
func (b *bench) open() *Store {
	b.t.Helper()
	s, err := Open(b.dir, b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	if b.files != nil {
		dir := &directory{path: b.dir, files: b.files, perm: 0o600}
		s = newStore(b.dir, s.header, b.options(), dir, fileKeeper{dir})
	}
	b.t.Cleanup(func() { s.Close() })
	return s
}

// files lists the handles' directory.
func (b *bench) handles() []string {
	b.t.Helper()
	names, err := host{}.names(filepath.Join(b.dir, handlesDir))
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if n != "." && n != ".." {
			out = append(out, n)
		}
	}
	return out
}

func writer(n byte) machine.ID { return machine.ID{n} }

func version(seq uint64, w byte) machine.Version {
	return machine.Version{Seq: seq, Writer: writer(w)}
}

func put(name string, seq uint64, w byte, data string) register.Op {
	return register.Op{Name: name, Writer: writer(w), Op: quorumregister.Put{Version: version(seq, w), Data: []byte(data)}}
}

func note(name string, seq uint64, w byte, data string) register.Op {
	return register.Op{Name: name, Writer: writer(w), Op: quorumregister.PutNote{Writer: writer(w), Seq: seq, Data: []byte(data)}}
}

func leave(name string, w byte) register.Op {
	return register.Op{Name: name, Writer: writer(w), Op: register.Leave{}}
}

func query(name string) register.Op { return register.Op{Name: name, Op: quorumregister.Query{}} }

// do performs operations that have to succeed.
func do(t testing.TB, s *Store, ops ...register.Op) []register.Reply {
	t.Helper()
	replies := s.Do(ops)
	for i, r := range replies {
		if r.Err != nil {
			t.Fatalf("%T %q: %v", ops[i].Op, ops[i].Name, r.Err)
		}
	}
	return replies
}

func state(t testing.TB, s *Store, name string) quorumregister.State {
	t.Helper()
	return do(t, s, query(name))[0].Value.(quorumregister.State)
}

// wantContents checks a register's contents: "seq data", and its notes as "writer=note".
func wantContents(t testing.TB, s *Store, name, want string) {
	t.Helper()
	st := state(t, s, name)
	got := fmt.Sprintf("%d %s", st.Version.Seq, st.Data)
	for _, n := range st.Notes {
		got += fmt.Sprintf(" %d=%s", n.Writer[0], n.Data)
	}
	if got != want {
		t.Errorf("%q shows %q, want %q", name, got, want)
	}
}

// wantFailure checks that one operation fails with an error that wraps another.
func wantFailure(t testing.TB, s *Store, op register.Op, want error) {
	t.Helper()
	if r := s.Do([]register.Op{op})[0]; !errors.Is(r.Err, want) {
		t.Errorf("%T %q: %v (%v), want an error that wraps %q", op.Op, op.Name, r.Err, r.Value, want)
	}
}
