package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestAgainstModel does random requests to a Store and to the model and wants
// the same answers, errors, histories, events and leases, whatever is compacted,
// reclaimed, pinned, or replaced by its own snapshot on the way.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{t: t, s: New(), m: newModel()}
		t.Repeat(map[string]func(*rapid.T){
			"":           p.check,
			"put":        p.put,
			"put again":  p.put,
			"fill":       p.fill,
			"delete":     p.delete,
			"range":      p.read,
			"ranges":     p.readSome,
			"txn":        p.txn,
			"txn again":  p.txn,
			"compact":    p.compact,
			"reclaim":    p.reclaim,
			"grant":      p.grant,
			"revoke":     p.revoke,
			"checkpoint": p.checkpoint,
			"keep view":  p.keep,
			"pin":        p.pin,
			"unpin":      p.unpin,
			"restore":    p.restore,
		})
	})
}

// pair is a store and the model of it.
type pair struct {
	t    *rapid.T
	s    *Store
	m    *model
	kept []keptView
	pins []pinned
}

type keptView struct {
	view  View
	model *model
}

type pinned struct {
	view    View
	release func()
	bytes   []byte
}

func (p *pair) generator(t *rapid.T) generator {
	return generator{T: t, revision: p.m.revision()}
}

// same wants equal answers and errors.
func same[M proto.Message](t *rapid.T, request any, got M, gotErr error, want M, wantErr error) {
	if gotErr != wantErr {
		t.Fatalf("%v: error %v, want %v", request, gotErr, wantErr)
	}
	if wantErr == nil && !proto.Equal(got, want) {
		t.Fatalf("%v:\n got %v\nwant %v", request, got, want)
	}
}

func (p *pair) put(t *rapid.T) {
	r := p.generator(t).putRequest()
	want, wantErr := p.m.Put(clone(r))
	got, err := p.s.Put(r)
	same(t, r, got, err, want, wantErr)
}

// fill puts most keys, so that ranges and leases have something to hold.
func (p *pair) fill(t *rapid.T) {
	g := p.generator(t)
	lease := g.lease()
	for _, key := range someKeys {
		if g.sometimes("skip") {
			continue
		}
		r := &pb.PutRequest{Key: []byte(key), Value: g.value(), Lease: lease}
		want, wantErr := p.m.Put(clone(r))
		got, err := p.s.Put(r)
		same(t, r, got, err, want, wantErr)
	}
}

func (p *pair) delete(t *rapid.T) {
	r := p.generator(t).deleteRequest()
	want, wantErr := p.m.DeleteRange(r)
	got, err := p.s.DeleteRange(r)
	same(t, r, got, err, want, wantErr)
}

func (p *pair) read(t *rapid.T) {
	r := p.generator(t).rangeRequest()
	want, wantErr := p.m.Range(r)
	got, err := p.s.View().Range(r)
	same(t, r, got, err, want, wantErr)
}

func (p *pair) readSome(t *rapid.T) {
	for range 10 {
		p.read(t)
	}
}

func (p *pair) txn(t *rapid.T) {
	r := p.generator(t).txnRequest(2)
	if ReadOnly(r) {
		want, wantErr := p.m.Txn(clone(r), someKeys)
		got, err := p.s.View().Txn(r)
		same(t, r, got, err, want, wantErr)
	} else if _, err := p.s.View().Txn(r); err != errNotReadOnly {
		t.Fatalf("%v on a view: error %v, want %v", r, err, errNotReadOnly)
	}
	want, wantErr := p.m.Txn(clone(r), someKeys)
	got, err := p.s.Txn(r)
	same(t, r, got, err, want, wantErr)
}

// clone keeps what the model remembers apart from what the store does.
func clone[M proto.Message](m M) M { return proto.Clone(m).(M) }

func (p *pair) compact(t *rapid.T) {
	rev := rapid.Int64Range(-1, p.m.revision()+1).Draw(t, "revision")
	if got, want := p.s.Compact(rev), p.m.Compact(rev); got != want {
		t.Fatalf("compact %d: error %v, want %v", rev, got, want)
	}
}

func (p *pair) reclaim(t *rapid.T) {
	p.s.Reclaim(rapid.IntRange(1, 20).Draw(t, "events"))
}

func (p *pair) grant(t *rapid.T) {
	id, ttl := p.generator(t).lease(), rapid.SampledFrom([]int64{-1, 0, 1, 60, MaxLeaseTTL, MaxLeaseTTL + 1}).Draw(t, "ttl")
	if got, want := p.s.Grant(id, ttl), p.m.Grant(id, ttl); got != want {
		t.Fatalf("grant %d: error %v, want %v", id, got, want)
	}
}

func (p *pair) revoke(t *rapid.T) {
	id := p.generator(t).lease()
	if got, want := p.s.Revoke(id), p.m.Revoke(id); got != want {
		t.Fatalf("revoke %d: error %v, want %v", id, got, want)
	}
}

func (p *pair) checkpoint(t *rapid.T) {
	id, remaining := p.generator(t).lease(), rapid.Int64Range(-1, 9).Draw(t, "remaining")
	if got, want := p.s.Checkpoint(id, remaining), p.m.Checkpoint(id, remaining); got != want {
		t.Fatalf("checkpoint %d: error %v, want %v", id, got, want)
	}
}

func (p *pair) keep(*rapid.T) {
	if len(p.kept) == 3 {
		p.kept = p.kept[1:]
	}
	m := &model{states: slices.Clip(p.m.states), events: slices.Clip(p.m.events), compact: p.m.compact, leases: maps.Clone(p.m.leases)}
	p.kept = append(p.kept, keptView{p.s.View(), m})
}

func (p *pair) pin(*rapid.T) {
	v, release := p.s.Pin()
	p.pins = append(p.pins, pinned{v, release, snapshot(p.t, v)})
}

func (p *pair) unpin(t *rapid.T) {
	if len(p.pins) == 0 {
		t.Skip("no pins")
	}
	i := rapid.IntRange(0, len(p.pins)-1).Draw(t, "pin")
	p.pins[i].release()
	p.pins = slices.Delete(p.pins, i, i+1)
}

func (p *pair) restore(t *rapid.T) {
	before := snapshot(t, p.s.View())
	s, err := Read(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.View().Stats(), p.s.View().Stats(); got.Keys != want.Keys || got.Leases != want.Leases {
		t.Fatalf("restored stats %+v, want the keys and leases of %+v", got, want)
	}
	if after := snapshot(t, s.View()); !bytes.Equal(after, before) {
		t.Fatalf("the snapshot of a restored store differs:\n%x\n%x", after, before)
	}
	p.s, p.kept, p.pins = s, nil, nil
}

type fataler interface {
	Fatal(...any)
}

func snapshot(t fataler, v View) []byte {
	var b bytes.Buffer
	n, err := v.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatal("write snapshot: ", n, " of ", b.Len(), " bytes: ", err)
	}
	return b.Bytes()
}

func (p *pair) check(t *rapid.T) {
	checkView(t, p.s.View(), p.m, false)
	if st, want := p.s.View().Stats(), inUse(p.s); st.Bytes-st.History != want {
		t.Fatalf("stats: %d bytes, %d of them history, and %d are in use", st.Bytes, st.History, want)
	}
	for _, k := range p.kept {
		checkView(t, k.view, k.model, true)
	}
	for _, pin := range p.pins {
		if got := snapshot(t, pin.view); !bytes.Equal(got, pin.bytes) {
			t.Fatalf("the snapshot of a pinned view changed:\n%x\n%x", got, pin.bytes)
		}
	}
}

// inUse adds up the bytes of the newest state.
func inUse(s *Store) (bytes int64) {
	s.keys.Scan(func(key string, it *item) bool {
		if v := it.live(); v != nil {
			bytes += bytesOfKey([]byte(key)) + v.bytes()
		}
		return true
	})
	s.leases.Scan(func(_ int64, l *lease) bool {
		bytes += leaseBytes + l.keys.bytes()
		return true
	})
	return bytes
}

// checkView compares all of a view with the model. An old view may have lost
// history to Reclaim, but only below the floor.
func checkView(t *rapid.T, v View, m *model, old bool) {
	if v.Revision() != m.revision() || v.CompactRevision() != m.compact {
		t.Fatalf("revision %d compact %d, want %d and %d", v.Revision(), v.CompactRevision(), m.revision(), m.compact)
	}
	lost := func(rev int64) bool { return old && rev < v.floor.Load() }
	for rev := max(m.compact, 1); rev <= m.revision(); rev++ {
		all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev}
		got, err := v.Range(all)
		if lost(rev) {
			if err != ErrCompacted {
				t.Fatalf("reading a lost revision: error %v, want %v", err, ErrCompacted)
			}
			continue
		}
		want, _ := m.Range(all)
		same(t, all, got, err, want, nil)
	}
	if lost(v.revision) {
		if _, err := v.Range(&pb.RangeRequest{Key: []byte("a")}); err != ErrStaleView {
			t.Fatalf("reading a lost view: error %v, want %v", err, ErrStaleView)
		}
		if _, err := v.Txn(&pb.TxnRequest{}); err != ErrStaleView {
			t.Fatalf("reading a lost view: error %v, want %v", err, ErrStaleView)
		}
	}
	checkEvents(t, v, m, lost)
	checkLeases(t, v, m)
	if got, want := v.Stats().Keys, int64(len(m.states[m.revision()])); got != want {
		t.Fatalf("stats: %d keys, want %d", got, want)
	}
}

func checkEvents(t *rapid.T, v View, m *model, lost func(int64) bool) {
	if _, err := v.Events(m.compact - 1); !errors.Is(err, ErrCompacted) {
		t.Fatalf("events before the compact revision: error %v", err)
	}
	for _, from := range []int64{m.compact, m.compact + 1, m.revision() - 2, m.revision(), m.revision() + 1} {
		if from < m.compact {
			continue
		}
		want := []string{}
		for _, e := range m.events {
			if e.kv.ModRevision >= from {
				want = append(want, fmt.Sprintf("%v %v %v", e.dead, e.kv, eventPrev(m.prev(e), lost, e.kv.ModRevision)))
			}
		}
		got := []string{}
		events, err := v.Events(from)
		if err != nil {
			t.Fatal(err)
		}
		for e := range events {
			got = append(got, fmt.Sprintf("%v %v %v", e.Type.String() == "DELETE", e.KV, eventPrev(e.Prev(), lost, e.KV.ModRevision)))
			if create := e.KV.Version == 1; e.IsCreate() != create {
				t.Fatalf("event %v: IsCreate %v, want %v", e.KV, e.IsCreate(), create)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("events from %d:\n got %q\nwant %q", from, got, want)
		}
	}
}

func eventPrev(prev fmt.Stringer, lost func(int64) bool, rev int64) string {
	if lost(rev - 1) {
		return "lost"
	}
	return prev.String()
}

func checkLeases(t *rapid.T, v View, m *model) {
	got := slices.Collect(v.Leases())
	want := []LeaseInfo{}
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		want = append(want, m.leases[id])
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("leases %v, want %v", got, want)
	}
	for id := int64(0); id < 6; id++ {
		info, ok := v.Lease(id)
		wantInfo, wantOK := m.leases[id]
		if info != wantInfo || ok != wantOK {
			t.Fatalf("lease %d: %v %v, want %v %v", id, info, ok, wantInfo, wantOK)
		}
		var wantKeys [][]byte
		if ok {
			wantKeys = m.leaseKeys(id)
		}
		if !slices.EqualFunc(v.LeaseKeys(id), wantKeys, bytes.Equal) {
			t.Fatalf("keys of lease %d: %q, want %q", id, v.LeaseKeys(id), wantKeys)
		}
	}
}
