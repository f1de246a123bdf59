package redis

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// A name is a hash: fields version, data and, for each writer, one that is called by its ID (16
// bytes) and holds its note. A writer that left has a field "left:" and its ID until its note is
// forgotten. Numbers are eight bytes, big-endian, so that their order is that of their bytes:
// numbers in Lua are exact to 2^53 only.

const seqLen = 8

func encodeSeq(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func encodeVersion(v machine.Version) []byte {
	if v == (machine.Version{}) {
		return nil
	}
	return append(encodeSeq(v.Seq), v.Writer[:]...)
}

func encodeNote(n quorumregister.Note) []byte { return append(encodeSeq(n.Seq), n.Data...) }

var errReply = errors.New("the server's reply makes no sense")

// shown is a base's content under a name, with the writers that have left it.
type shown struct {
	quorumregister.State
	left []machine.ID
}

// decodeShown reads the reply of query and leave.
func decodeShown(reply any) (s shown, err error) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return s, errReply
	}
	floor, _ := parts[0].(string)
	fields, _ := parts[1].([]any)
	if len(floor) != seqLen || len(fields)%2 != 0 {
		return s, errReply
	}
	s.Floor = binary.BigEndian.Uint64([]byte(floor))
	for pair := range slices.Chunk(fields, 2) {
		field, _ := pair[0].(string)
		value, ok := pair[1].(string)
		if !ok || !s.take(field, value) {
			return s, errReply
		}
	}
	slices.SortFunc(s.Notes, func(a, b quorumregister.Note) int { return a.Writer.Compare(b.Writer) })
	slices.SortFunc(s.left, machine.ID.Compare)
	return s, nil
}

// take reads one field of a hash.
func (s *shown) take(field, value string) bool {
	const left = "left:"
	idLen := len(machine.ID{})
	switch {
	case field == "version" && len(value) == seqLen+idLen:
		s.Version.Seq = binary.BigEndian.Uint64([]byte(value))
		copy(s.Version.Writer[:], value[seqLen:])
	case field == "data":
		s.Data = []byte(value)
	case len(field) == idLen && len(value) >= seqLen:
		n := quorumregister.Note{Seq: binary.BigEndian.Uint64([]byte(value)), Data: []byte(value[seqLen:])}
		copy(n.Writer[:], field)
		s.Notes = append(s.Notes, n)
	case len(field) == len(left)+idLen && field[:len(left)] == left:
		var id machine.ID
		copy(id[:], field[len(left):])
		s.left = append(s.left, id)
	default:
		return false
	}
	return true
}

// value is how the base alone would show the register.
func (s *shown) value() machine.Value {
	v := machine.Value{Version: s.Version, Data: s.Data, Next: max(s.Version.Seq, s.Floor) + 1}
	for _, n := range s.Notes {
		v.Notes = append(v.Notes, machine.Noted{Writer: n.Writer, Data: n.Data})
	}
	return v
}

// note returns a writer's note as the server has it, or nothing.
func (s *shown) note(writer machine.ID) []byte {
	i, ok := slices.BinarySearchFunc(s.Notes, writer, func(n quorumregister.Note, id machine.ID) int { return n.Writer.Compare(id) })
	if !ok {
		return nil
	}
	return encodeNote(s.Notes[i])
}

// remove takes out a writer's records: its note, and the data if that is its own.
func (s *shown) remove(writer machine.ID) {
	s.Notes = slices.DeleteFunc(slices.Clone(s.Notes), func(n quorumregister.Note) bool { return n.Writer == writer })
	if s.Version.Writer == writer {
		s.Floor = max(s.Floor, s.Version.Seq)
		s.Version, s.Data = machine.Version{}, nil
	}
}
