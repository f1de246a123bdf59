package server

import (
	"bytes"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// holds fills in the keys that a holder has by the configuration in force.
func holds(h *etcdapi.ReadLeaseHolder, conf *placement.Configuration) {
	if conf == nil {
		return
	}
	place := conf.Place(machine.NodeID(h.Member))
	if every, _ := conf.Everything(); place >= 0 && every.Has(place) {
		return
	}
	h.Partial = true
	h.Covers = func(r etcdapi.KeyRange) bool {
		every, _ := conf.HoldersOfRange(r.Key, r.End)
		return place >= 0 && every.Has(place)
	}
	if place >= 0 {
		h.Keys = keysOf(conf, place)
	}
}

// named are the members by which configurations are written.
func named(m member) (members []placement.Member) {
	for _, other := range m.Members() {
		members = append(members, placement.Member{ID: machine.NodeID(other.ID), Name: other.Name})
	}
	return members
}

// keysOf are the ranges of which a member holds every key, in order and apart. Of keys
// that go by their hash they have all or none.
func keysOf(conf *placement.Configuration, place int) (keys []etcdapi.KeyRange) {
	rest := conf.Default().Has(place)
	for _, s := range conf.Buckets() {
		rest = rest && (s == 0 || s.Has(place))
	}
	add := func(from, end []byte) {
		if n := len(keys); n > 0 && bytes.Equal(keys[n-1].End, from) {
			keys[n-1].End = end
		} else {
			keys = append(keys, etcdapi.KeyRange{Key: from, End: end})
		}
	}
	last := []byte{0} // as a key the first of all, as an end behind all
	from := last
	for _, c := range conf.Cells() {
		end := c.End
		if len(end) == 0 {
			end = append(bytes.Clone(c.Key), 0)
		}
		if rest && bytes.Compare(from, c.Key) < 0 {
			add(from, c.Key)
		}
		if c.Holders.Has(place) {
			add(c.Key, end)
		}
		if from = end; bytes.Equal(end, last) {
			return keys
		}
	}
	if rest {
		add(from, last)
	}
	return keys
}
