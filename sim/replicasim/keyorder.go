package replicasim

import (
	"cmp"
	"slices"

	"github.com/tenure-lease/tenure/keyspan"
	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/quorumlease"
	"github.com/tenure-lease/tenure/replica"
)

// seen is what of a member's state may be seen.
type seen struct {
	through uint64          // everything up to here
	apart   map[uint64]bool // entries beyond
	// ahead are the states from the one that may be seen on, by index.
	ahead []view
	// kept are results whose entries are not released.
	kept  []replica.Result
	reads map[uint64]view // the states of reads by the log, by ID
	asked map[uint64]askedRead
	ready []readyRead
}

// readyRead waits until its member has applied what it has to see.
type readyRead struct {
	replica.KeysReady
	askedRead
}

// askedRead is a read that the replica was asked for.
type askedRead struct {
	keys keyspan.Set
	f    func(view, replica.KeysReady)
}

// byKey tells whether the cluster's entries may be released in key order, at any time.
func (c *Cluster) byKey() bool { return quorumlease.Policy(c.ReadLease).ByKey() }

// state is the newest state.
func (m *Member) newest() view { return view{m.state.Store().View(), m.state.Index()} }

// applies notes the state behind an entry.
func (m *Member) applies(held bool) {
	if held {
		m.seen.ahead = append(m.seen.ahead, m.newest())
		return
	}
	m.seen.ahead = []view{m.newest()}
	m.seen.through = max(m.seen.through, m.state.Index())
	m.state.Released(m.state.Index())
}

// view is the newest state that anybody may see; its index is 0 if there is none.
func (m *Member) view() view {
	if v := m.seen.ahead[0]; v.index <= m.seen.through {
		return v
	}
	return view{}
}

// at is the newest state up to an index, if there is one.
func (m *Member) at(index uint64) (v view, ok bool) {
	n, found := slices.BinarySearchFunc(m.seen.ahead, index, func(v view, i uint64) int { return cmp.Compare(v.index, i) })
	if !found {
		n--
	}
	if n < 0 {
		return v, false
	}
	return m.seen.ahead[n], true
}

// releases learns what may be seen.
func (m *Member) releases(out replica.Released) {
	s := &m.seen
	s.through = max(s.through, out.Through)
	for _, i := range out.Apart {
		if s.apart == nil {
			s.apart = map[uint64]bool{}
		}
		s.apart[i] = true
	}
	m.state.Released(s.through)
	m.reveal()
}

// reveal gives up the states before the one that may be seen, and answers.
func (m *Member) reveal() {
	s := &m.seen
	n := 0
	for n+1 < len(s.ahead) && s.ahead[n+1].index <= s.through {
		n++
	}
	s.ahead = s.ahead[n:]
	kept := s.kept
	s.kept = nil
	for _, r := range kept {
		m.answer(r)
	}
	for i := range s.apart {
		if i <= s.through {
			delete(s.apart, i)
		}
	}
	m.c.publishes(m)
	m.serveReads()
}

// captures keeps the state of a read by the log: in key order that of its entry, in
// strict order one that is as good.
func (m *Member) captures(results []replica.Result) {
	for _, r := range results {
		if r.Response != nil || r.Err != nil {
			continue
		}
		if m.seen.reads == nil {
			m.seen.reads = map[uint64]view{}
		}
		n, _ := slices.BinarySearchFunc(m.seen.ahead, r.Index, func(v view, i uint64) int { return cmp.Compare(v.index, i) })
		m.seen.reads[r.ID] = m.seen.ahead[n]
	}
}

// answer gives a result to who waits for it, once its entry is released.
func (m *Member) answer(r replica.Result) {
	if r.Index > m.seen.through && !m.seen.apart[r.Index] {
		m.seen.kept = append(m.seen.kept, r)
		return
	}
	if f := m.results[r.ID]; f != nil {
		delete(m.results, r.ID)
		f(r, nil)
	}
}

// readKeys calls f with a state in which some keys may be read linearizably. It goes by
// the policy that is applied, whatever the replica has heard by then, as a node does.
func (m *Member) readKeys(keys keyspan.Set, f func(kv.View)) {
	if m.state.ReadPolicy().ByKey() {
		m.askKeys(keys, f)
		return
	}
	m.read(func(v kv.View) {
		if m.state.ReadPolicy().ByKey() { // what is published by now is for readers of single keys
			m.askKeys(keys, f)
			return
		}
		f(v)
	})
}

// askKeys asks the replica.
func (m *Member) askKeys(keys keyspan.Set, f func(kv.View)) {
	m.nextID++
	if m.seen.asked == nil {
		m.seen.asked = map[uint64]askedRead{}
	}
	m.seen.asked[m.nextID] = askedRead{keys, func(v view, out replica.KeysReady) {
		if out.Local {
			m.local++
		}
		f(v.View)
	}}
	m.Step(replica.ReadKeys{ID: m.nextID, Keys: keys})
}

// keysReady serves a read of keys, or lets it wait for the Applier.
func (m *Member) keysReady(out replica.KeysReady) {
	asked, ok := m.seen.asked[out.ID]
	if !ok {
		return
	}
	delete(m.seen.asked, out.ID)
	if out.ByLog {
		m.nextID++
		m.results[m.nextID] = func(r replica.Result, err error) {
			if err == nil {
				v := m.seen.reads[r.ID]
				delete(m.seen.reads, r.ID)
				m.moment(func() { asked.f(v, out) })
			}
		}
		m.Step(replica.Propose{ID: m.nextID, Body: replica.EncodeRead(asked.keys)})
		return
	}
	m.moment(func() {
		m.seen.ready = append(m.seen.ready, readyRead{out, asked})
		m.serveKeys()
	})
}

func (m *Member) serveKeys() {
	ready := m.seen.ready
	m.seen.ready = nil
	for _, r := range ready {
		if m.state.Index() < r.Index {
			m.seen.ready = append(m.seen.ready, r)
			continue
		}
		m.moment(func() {
			upTo := r.UpTo
			if !r.Exact {
				upTo = max(upTo, m.view().index)
			}
			v, ok := m.at(upTo)
			if !ok || v.index < r.Index { // a snapshot took the place of that state
				m.nextID++
				m.seen.asked[m.nextID] = r.askedRead
				m.Step(replica.ReadKeys{ID: m.nextID, Keys: r.keys})
				return
			}
			m.moment(func() { r.f(v, r.KeysReady) })
		})
	}
}
