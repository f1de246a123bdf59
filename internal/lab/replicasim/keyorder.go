package replicasim

import (
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/core/visibility"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// keyReads are a member's reads of keys.
type keyReads struct {
	asked map[uint64]askedRead
	ready []readyRead
	state view // of the read by the log that is being answered
}

// readyRead waits until its member has applied the entries that it has to see.
type readyRead struct {
	replica.KeysReady
	askedRead
}

// askedRead is a read that the replica was asked for.
type askedRead struct {
	keys keyspan.Set
	f    func(view, replica.KeysReady)
}

// byKey reports whether the cluster's entries may be released in key order, at any time.
func (c *Cluster) byKey() bool { return quorumlease.Policy(c.ReadLease).ByKey() }

// state is the newest state.
func (m *Member) newest() view { return view{m.state.Store().View(), m.state.Index()} }

// onApplied notes the state behind an entry.
func (m *Member) onApplied(held bool) {
	m.seen.Add(m.newest(), held)
	m.seen.Reveal()
	m.state.Released(m.seen.Through())
}

// view is the newest state that anybody may see; its index is 0 if there is none.
func (m *Member) view() view { return m.seen.Shown() }

// Index is that of the last entry applied.
func (v view) Index() uint64 { return v.index }

// onReleased learns what may be seen.
func (m *Member) onReleased(out replica.Released) {
	m.seen.Release(out)
	m.state.Released(m.seen.Through())
	m.reveal(nil)
}

// reveal shows what may be seen, and answers.
func (m *Member) reveal(results []replica.Result) {
	m.seen.Reveal()
	m.c.onPublish(m)
	m.seen.Answer(results, func(r replica.Result, read view) {
		if f := m.results[r.ID]; f != nil {
			delete(m.results, r.ID)
			m.keys.state = read
			f(r, nil)
		}
	})
	m.serveReads()
}

// readKeys calls f with a state in which some keys may be read linearizably. It goes by
// the policy that is applied, whatever the replica has heard by then, as a node does.
func (m *Member) readKeys(keys keyspan.Set, f func(kv.View)) {
	if m.state.ReadPolicy().ByKey() {
		m.readHere(keys, f)
		return
	}
	m.read(func(v kv.View) {
		if m.state.ReadPolicy().ByKey() { // the present publication is for readers of single keys
			m.askKeys(keys, f)
			return
		}
		f(v)
	})
}

// readHere reads as a handler of a node does, on a goroutine of its own: it loads the
// publication, reads the clock, and looks at the states last. The process may be paused at any
// point of that.
func (m *Member) readHere(keys keyspan.Set, f func(kv.View)) {
	lease := m.keyLease
	if lease == nil {
		m.askKeys(keys, f)
		return
	}
	m.moment(func() {
		ready, ok := lease.Ready(keys)
		if m.Now().Mono >= lease.Until || !ok {
			m.askKeys(keys, f)
			return
		}
		m.moment(func() {
			v, ok := visibility.For(m.seen.Ahead(), ready)
			if !ok {
				m.askKeys(keys, f)
				return
			}
			m.local++
			m.unasked++
			if lease.Counted {
				m.counted = append(m.counted, keys...)
			}
			m.served()
			m.moment(func() { f(v.View) })
		})
	})
}

// askKeys asks the replica.
func (m *Member) askKeys(keys keyspan.Set, f func(kv.View)) {
	m.nextID++
	if m.keys.asked == nil {
		m.keys.asked = map[uint64]askedRead{}
	}
	m.keys.asked[m.nextID] = askedRead{keys, func(v view, out replica.KeysReady) {
		if out.Local {
			m.local++
		}
		f(v.View)
	}}
	m.Step(replica.ReadKeys{ID: m.nextID, Keys: keys})
}

// keysReady serves a read of keys, or lets it wait for the Applier.
func (m *Member) keysReady(out replica.KeysReady) {
	asked, ok := m.keys.asked[out.ID]
	if !ok {
		return
	}
	delete(m.keys.asked, out.ID)
	if out.ByLog {
		m.nextID++
		m.results[m.nextID] = func(_ replica.Result, err error) {
			if err == nil {
				v := m.keys.state
				m.moment(func() { asked.f(v, out) })
			}
		}
		m.Step(replica.Propose{ID: m.nextID, Body: replica.EncodeRead(asked.keys)})
		return
	}
	m.moment(func() {
		m.keys.ready = append(m.keys.ready, readyRead{out, asked})
		m.serveKeys()
	})
}

func (m *Member) serveKeys() {
	ready := m.keys.ready
	m.keys.ready = nil
	for _, r := range ready {
		if m.state.Index() < r.Index {
			m.keys.ready = append(m.keys.ready, r)
			continue
		}
		m.moment(func() {
			v, ok := visibility.For(m.seen.Ahead(), r.KeysReady)
			if !ok { // a snapshot took the place of that state
				m.nextID++
				m.keys.asked[m.nextID] = r.askedRead
				m.Step(replica.ReadKeys{ID: m.nextID, Keys: r.keys})
				return
			}
			m.moment(func() { r.f(v, r.KeysReady) })
		})
	}
}
