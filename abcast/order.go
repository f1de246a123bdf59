package abcast

import (
	"container/list"

	"github.com/tenure-lease/tenure/machine"
)

// State is what follows from the decisions up to an instance, the same at all members.
type State struct {
	Instance uint64    // the last that was delivered
	Position uint64    // of the last message
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
	horizon            uint64
	group              Group
	clients            int // most that are remembered
	sessions           map[machine.ID]*list.Element
	recent             list.List // of *Session, as in State
}

func newOrder(s State) *order {
	o := &order{instance: s.Instance, position: s.Position, horizon: s.Horizon, group: s.Group, clients: s.Clients, sessions: map[machine.ID]*list.Element{}}
	for _, session := range s.Sessions {
		o.sessions[session.Client] = o.recent.PushBack(&session)
	}
	return o
}

func (o *order) state() State {
	s := State{Instance: o.instance, Position: o.position, Horizon: o.horizon, Group: o.group, Clients: o.clients}
	for e := o.recent.Front(); e != nil; e = e.Next() {
		s.Sessions = append(s.Sessions, *e.Value.(*Session))
	}
	return s
}

// upto is the number of a client's last message that was ordered.
func (o *order) upto(client machine.ID) uint64 {
	if e := o.sessions[client]; e != nil {
		return e.Value.(*Session).Upto
	}
	return 0
}

// due is the number of the only message of a client that may be ordered next; 0 if none
// ever will: he was forgotten. Of a client without a session that is not known, but who has
// been dropped once has an ID from before the horizon: his messages are behind the position
// in it, and the horizon is not before the last of them. So nobody begins anew who may have
// begun before, wherever and however late his messages come.
func (o *order) due(client machine.ID) uint64 {
	if e := o.sessions[client]; e != nil {
		return e.Value.(*Session).Upto + 1
	}
	if born(client) < o.horizon {
		return 0
	}
	return 1
}

// takes tells whether a message is ordered if it comes next. An ID from beyond the position
// was not made by NewClient: whoever made it has delivered up to there, so that those
// instances were decided, and they are not about messages that were broadcast later.
// It would be beyond each horizon, and forgotten again and again.
func (o *order) takes(client machine.ID, seq uint64) bool {
	return seq > 0 && seq == o.due(client) && (seq > 1 || born(client) <= o.position)
}

// next takes in the decision of the instance after the last, and returns what it
// orders: of each client only the message that is due, so that none is ordered
// twice and each after its predecessor. If it changes the group, the next instance is
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
		if !o.takes(m.Client, m.Seq) {
			continue
		}
		o.position++
		o.remember(m.Client, m.Seq)
		d := Delivered{Position: o.position, Message: m}
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

func (o *order) remember(client machine.ID, seq uint64) {
	e := o.sessions[client]
	if e == nil {
		e = o.recent.PushBack(&Session{Client: client})
		o.sessions[client] = e
	}
	s := e.Value.(*Session)
	s.Upto, s.Position = seq, o.position
	o.recent.MoveToBack(e)
	if o.recent.Len() > o.clients {
		oldest := o.recent.Remove(o.recent.Front()).(*Session)
		delete(o.sessions, oldest.Client)
		o.horizon = oldest.Position
	}
}
