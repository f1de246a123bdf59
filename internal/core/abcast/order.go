package abcast

import (
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// State is what follows from the decisions up to an instance, the same at all members.
type State struct {
	Instance uint64    // the last that was delivered
	Position uint64    // of the last message
	Digest   uint64    // of all messages up to there
	Group    Group     // of the next instance
	Clients  int       // how many sessions there may be; the same for good
	Sessions []Session // whose messages were ordered the longest ago first
	Horizon  uint64    // the Position of the session that was dropped last; 0 if none was
}

// Session is how far a client's messages are ordered.
type Session struct {
	Client   machine.ID
	Upto     uint64 // the number of the last
	Position uint64 // and where it is
}

// order is State as it changes.
type order struct {
	instance, position uint64
	digest             uint64
	horizon            uint64
	group              Group
	clients            int // most that are remembered
	sessions           map[machine.ID]int32
	slots              []slot // by the numbers in sessions
}

// slot is a session in a ring, as in State; the first slot is where the ring begins and ends,
// and nobody's. There may be a million: they are one piece of memory, without pointers.
type slot struct {
	Session
	before, after int32
}

func newOrder(s State) *order {
	o := &order{instance: s.Instance, position: s.Position, digest: s.Digest, horizon: s.Horizon, group: s.Group, clients: s.Clients}
	o.sessions, o.slots = make(map[machine.ID]int32, len(s.Sessions)), make([]slot, 1, 1+len(s.Sessions))
	for _, session := range s.Sessions {
		o.add(session)
	}
	return o
}

// clone is a copy that changes for itself.
func (o *order) clone() *order {
	c := *o
	c.sessions, c.slots = maps.Clone(o.sessions), slices.Clone(o.slots)
	return &c
}

// add makes a session the last of the ring.
func (o *order) add(s Session) {
	i := int32(len(o.slots))
	o.slots = append(o.slots, slot{Session: s})
	o.sessions[s.Client] = i
	o.link(i)
}

func (o *order) link(i int32) {
	last := o.slots[0].before
	o.slots[i].before, o.slots[i].after = last, 0
	o.slots[last].after, o.slots[0].before = i, i
}

func (o *order) unlink(i int32) {
	before, after := o.slots[i].before, o.slots[i].after
	o.slots[before].after, o.slots[after].before = after, before
}

// head is the state without its sessions.
func (o *order) head() State {
	return State{Instance: o.instance, Position: o.position, Digest: o.digest, Horizon: o.horizon, Group: o.group, Clients: o.clients}
}

// list returns the sessions; not nil.
func (o *order) list() []Session {
	list := make([]Session, 0, len(o.sessions))
	for i := o.slots[0].after; i != 0; i = o.slots[i].after {
		list = append(list, o.slots[i].Session)
	}
	return list
}

// upto is the number of a client's last message that was ordered.
func (o *order) upto(client machine.ID) uint64 {
	return o.slots[o.sessions[client]].Upto // the first slot's is 0
}

// due is the number of the only message of a client that may be ordered next; 0 if none
// ever will: the client was forgotten. It is not known of a client without a session. But a
// client that was dropped once has an ID from before the horizon: its messages are behind
// the position in the ID, and the horizon is not before the last of them. So no client
// begins anew that may have begun before, wherever and however late its messages come.
func (o *order) due(client machine.ID) uint64 {
	if i := o.sessions[client]; i != 0 {
		return o.slots[i].Upto + 1
	}
	if born(client) < o.horizon {
		return 0
	}
	return 1
}

// accepts reports whether a message is ordered if it comes next. An ID from beyond the
// position was not made by NewClient. A member that makes an ID has delivered up to its
// position, so those instances were decided, and they contain no message that was broadcast
// later. It would be beyond each horizon, and forgotten again and again.
func (o *order) accepts(client machine.ID, seq uint64) bool {
	return seq > 0 && seq == o.due(client) && (seq > 1 || born(client) <= o.position)
}

// next takes the decision of the instance after the last, and returns the messages that it
// orders. Of each client that is only the message that is due, so that none is ordered
// twice and each comes after its predecessor. If it changes the group, the next instance is
// the first of another epoch.
func (o *order) next(batch []byte) (delivered []Delivered) {
	o.instance++
	messages, err := decodeBatch(batch)
	if err != nil {
		return nil // all members find the same
	}
	group, changed := o.group, false
	if len(messages) > 0 {
		delivered = make([]Delivered, 0, len(messages))
	}
	for _, m := range messages {
		if !o.accepts(m.Client, m.Seq) {
			continue
		}
		o.position++
		o.remember(m.Client, m.Seq)
		o.digest = digest(o.digest, m)
		d := Delivered{Position: o.position, Message: m, Digest: o.digest}
		if m.Change {
			var change Change
			var did bool
			if change, d.Err = decodeChange(m.Payload); d.Err == nil {
				group, did, d.Err = group.after(change)
			}
			d.Members, changed = group.Members, changed || did
		}
		delivered = append(delivered, d)
	}
	if changed {
		group.First = o.instance + 1
		o.group = group
	}
	return delivered
}

// remember notes a client's message at the present position.
func (o *order) remember(client machine.ID, seq uint64) {
	session := Session{client, seq, o.position}
	i, known := o.sessions[client]
	switch {
	case !known && len(o.sessions) < o.clients:
		o.add(session)
		return
	case !known:
		i = o.slots[0].after
		delete(o.sessions, o.slots[i].Client)
		o.sessions[client] = i
		o.horizon = o.slots[i].Position
	}
	o.slots[i].Session = session
	o.unlink(i)
	o.link(i)
}
