package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/auth"
)

// users writes users and roles, and whether they are in force. Without them a restored cluster would be
// open to everybody.
func (w *writer) users(s *auth.State) {
	if !s.Used() {
		return
	}
	enabled := []byte{0}
	if s.Enabled() {
		enabled[0] = 1
	}
	w.put(authBucket, authEnabled, enabled)
	w.put(authBucket, authRevision, binary.BigEndian.AppendUint64(nil, s.Revision()))
	users, roles := s.Export()
	for _, r := range roles {
		w.putMessage(roleBucket, r.Name, r)
	}
	for _, u := range users {
		w.putMessage(userBucket, u.Name, u)
	}
}

func (w *writer) putMessage(bucket, key []byte, m proto.Message) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if w.err == nil {
		w.err = err
	}
	w.put(bucket, key, b)
}

var errUsers = errors.New("its users and roles make no sense")

// readUsers reads what users writes, and what etcd does.
func (c *Content) readUsers(tx *bbolt.Tx) error {
	head := tx.Bucket(authBucket)
	if head == nil || head.Get(authRevision) == nil && head.Get(authEnabled) == nil {
		return nil // there never were any
	}
	revision := head.Get(authRevision)
	if len(revision) != 8 {
		return errUsers
	}
	var users []*authpb.User
	err := each(tx, userBucket, func(k, v []byte) error {
		u := new(authpb.User)
		users = append(users, u)
		return readNamed(v, u, k, u.GetName)
	})
	var roles []*authpb.Role
	if err == nil {
		err = each(tx, roleBucket, func(k, v []byte) error {
			r := new(authpb.Role)
			roles = append(roles, r)
			return readNamed(v, r, k, r.GetName)
		})
	}
	if err != nil {
		return err
	}
	enabled := bytes.Equal(head.Get(authEnabled), []byte{1})
	if c.users, err = auth.Import(enabled, binary.BigEndian.Uint64(revision), users, roles); err != nil {
		return fmt.Errorf("%w: %w", errUsers, err)
	}
	return nil
}

// each calls a function for all values of a bucket, if there is one.
func each(tx *bbolt.Tx, bucket []byte, do func(k, v []byte) error) error {
	b := tx.Bucket(bucket)
	if b == nil {
		return nil
	}
	return b.ForEach(do)
}

// readNamed reads a message whose name is its key.
func readNamed(value []byte, m proto.Message, key []byte, name func() []byte) error {
	if err := proto.Unmarshal(value, m); err != nil || !bytes.Equal(name(), key) {
		return errUsers
	}
	return nil
}

// Users are those of the file, which belong to its state; nil if it never had any.
func (c *Content) Users() *auth.State { return c.users }
