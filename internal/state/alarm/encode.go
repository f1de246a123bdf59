package alarm

import (
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/wire"
)

var errBadState = errors.New("alarm: the alarms are damaged, or a newer version wrote them")

// version begins the encoded form.
const version = 1

// Encode encodes the state, the same at all members.
func (s *State) Encode() []byte {
	var w wire.Writer
	w.Byte(version)
	w.Count(len(s.list))
	for _, m := range s.list {
		w.Uvarint(uint64(m.alarm))
		w.Uvarint(m.id)
	}
	return w
}

// Decode is the inverse of Encode, of a state that was used.
func Decode(p []byte) (*State, error) {
	r := wire.Reader{Rest: p}
	if r.Byte() != version {
		return nil, errBadState
	}
	s := &State{used: true}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		kind := r.Uvarint()
		m := member{id: r.Uvarint(), alarm: pb.AlarmType(kind)}
		if kind != uint64(pb.AlarmType_NOSPACE) && kind != uint64(pb.AlarmType_CORRUPT) || len(s.list) == Max {
			return nil, errBadState
		}
		if last := len(s.list) - 1; last >= 0 && s.list[last].compare(m) >= 0 {
			return nil, errBadState
		}
		s.list = append(s.list, m)
	}
	if !r.Done() {
		return nil, errBadState
	}
	return s, nil
}
