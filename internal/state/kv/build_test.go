package kv

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// contentOf tells a view as another program's file would.
func contentOf(t testing.TB, v View) Content {
	events, err := v.Events(v.CompactRevision())
	if err != nil {
		t.Fatal(err)
	}
	return Content{Revision: v.Revision(), Compact: v.CompactRevision(), Base: v.Base(), Events: keyValues(events), Leases: v.Leases()}
}

func keyValues(events iter.Seq[Event]) iter.Seq[*mvccpb.KeyValue] {
	return func(yield func(*mvccpb.KeyValue) bool) {
		for e := range events {
			if !yield(e.KV) {
				return
			}
		}
	}
}

func TestBuiltOfItsContent(t *testing.T) {
	for name, s := range map[string]*Store{"empty": New(), "rich": richStore(t)} {
		want := snapshot(t, s.View())
		built, err := Build(contentOf(t, s.View()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := snapshot(t, built.View()); !bytes.Equal(got, want) {
			t.Errorf("%s: built\n%x, want\n%x", name, got, want)
		}
		if got, want := built.View().Stats(), s.View().Stats(); got.Keys != want.Keys || got.Leases != want.Leases {
			t.Errorf("%s: built with %+v, want %+v", name, got, want)
		}
	}
}

func raised(t testing.TB) *Store {
	t.Helper()
	s, err := Build(Content{
		Revision: 1000, Compact: 1000, Raised: true,
		Base: slices.Values([]*mvccpb.KeyValue{
			{Key: []byte("a"), Value: []byte("x"), CreateRevision: 2, ModRevision: 3, Version: 2, Lease: 7},
			{Key: []byte("b"), CreateRevision: 4, ModRevision: 4, Version: 1},
		}),
		Events: slices.Values([]*mvccpb.KeyValue(nil)), Leases: slices.Values([]LeaseInfo{{ID: 7, TTL: 60}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRaisedRevision: a state may begin at a revision at which nothing happened, goes on from there, and
// comes back from its snapshots.
func TestRaisedRevision(t *testing.T) {
	s := raised(t)
	again := func(when string) {
		t.Helper()
		data := snapshot(t, s.View())
		read, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := snapshot(t, read.View()); !bytes.Equal(got, data) {
			t.Errorf("%s: the snapshot is read as another state", when)
		}
		if got := read.View().Revision(); got != s.Revision() {
			t.Errorf("%s: revision %d, want %d", when, got, s.Revision())
		}
	}
	again("at once")
	mustPut(t, s, "a", "y", 0)
	if s.Revision() != 1001 {
		t.Errorf("the first change after revision 1000 is %d", s.Revision())
	}
	again("with a change")
	if err := s.Compact(1001); err != nil {
		t.Fatal(err)
	}
	again("compacted")
	if _, err := s.View().Events(1000); !errors.Is(err, ErrCompacted) {
		t.Errorf("events before the compaction: error %v", err)
	}
}

func TestBuildRefusesNonsense(t *testing.T) {
	kv := func(key string, create, mod, version, lease int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), CreateRevision: create, ModRevision: mod, Version: version, Lease: lease}
	}
	for name, change := range map[string]func(c *Content){
		"revision zero":           func(c *Content) { c.Revision = 0 },
		"compacted in the future": func(c *Content) { c.Compact = 9 },
		"raised before the first": func(c *Content) {
			*c = Content{Revision: 1, Compact: -1, Raised: true, Base: c.Events, Events: c.Events, Leases: c.Leases}
		},
		"events missing":       func(c *Content) { c.Revision = 6 },
		"a change of nothing":  func(c *Content) { c.Events = slices.Values([]*mvccpb.KeyValue{kv("a", 2, 5, 4, 0)}) },
		"base out of order":    func(c *Content) { c.Base = slices.Values([]*mvccpb.KeyValue{kv("b", 2, 2, 1, 0), kv("a", 2, 2, 1, 0)}) },
		"a lease without time": func(c *Content) { c.Leases = slices.Values([]LeaseInfo{{ID: 1}}) },
		"leases out of order":  func(c *Content) { c.Leases = slices.Values([]LeaseInfo{{ID: 2, TTL: 1}, {ID: 1, TTL: 1}}) },
		"attached to no lease": func(c *Content) {
			c.Events = slices.Values([]*mvccpb.KeyValue{kv("b", 4, 4, 1, 0), kv("a", 2, 5, 3, 7)})
		},
		"nothing at the compaction":  func(c *Content) { c.Revision, c.Events = 4, slices.Values([]*mvccpb.KeyValue(nil)) },
		"raised, and events missing": func(c *Content) { c.Raised, c.Revision, c.Events = true, 5, slices.Values([]*mvccpb.KeyValue(nil)) },
	} {
		c := Content{
			Revision: 5, Compact: 4,
			Base:   slices.Values([]*mvccpb.KeyValue{kv("a", 2, 3, 2, 0)}),
			Events: slices.Values([]*mvccpb.KeyValue{kv("b", 4, 4, 1, 0), kv("a", 2, 5, 3, 0)}),
			Leases: slices.Values([]LeaseInfo(nil)),
		}
		if _, err := Build(c); err != nil {
			t.Fatalf("as it is: %v", err)
		}
		change(&c)
		if _, err := Build(c); !errors.Is(err, errSnapshotCorrupt) {
			t.Errorf("%s: error %v, want %v", name, err, errSnapshotCorrupt)
		}
	}
}
