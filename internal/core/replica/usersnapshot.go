package replica

import (
	"bufio"
	"encoding/binary"
	"fmt"

	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/wire"
)

// usersMagic begins the users in a snapshot. They are there only if there ever were any: other
// snapshots are as they were before there could be users.
const usersMagic = "TENUREUS"

// encodeUsers encodes the section of the users: the magic, a length, the state.
func encodeUsers(users *auth.State) []byte {
	p := users.Encode()
	var w wire.Writer
	w.Put([]byte(usersMagic))
	w.Put(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
	w.Put(p)
	return w
}

// readUsers reads the section of the users, if it is there.
func readUsers(r *bufio.Reader) (*auth.State, error) {
	head, _ := r.Peek(len(usersMagic))
	if string(head) != usersMagic {
		return auth.New(), nil // if too little is left, or cannot be read, the state's own reader says so
	}
	if _, err := r.Discard(len(usersMagic)); err != nil {
		return nil, err
	}
	p, err := readSection(r)
	if err != nil {
		return nil, err
	}
	users, err := auth.Decode(p)
	if err != nil {
		return nil, fmt.Errorf("users and roles: %w", err)
	}
	return users, nil
}
