package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Target is a cluster that is measured.
type Target interface {
	// Size is the number of members.
	Size() int
	// Leader is the index of the member that leads.
	Leader() int
	// Connect opens a connection of its own to a member.
	Connect(member int) (*clientv3.Client, error)
	// CPU returns the user and system time of all members since their start, and 0 if they do
	// not tell.
	CPU(context.Context) time.Duration
}

// Load is how a target is measured.
type Load struct {
	Target
	Clients int           // each with a connection of its own
	Time    time.Duration // for which a case is measured, after a warm-up of a fifth
	Prefix  string        // of all keys
	Keys    int           // that are put to; 0: 10,000
	Bytes   int           // of a value; 0: 256
}

// leaseSeconds is the TTL of leases that a case grants: much longer than any measurement's step, and short
// enough for leases that could not be revoked.
const leaseSeconds = 60

// members are all of the target's, by index.
func (l *Load) members() (list []int) {
	for i := range l.Size() {
		list = append(list, i)
	}
	return list
}

// followers are the members that do not lead; alone, a member is its own.
func (l *Load) followers() (list []int) {
	for _, i := range l.members() {
		if i != l.Leader() {
			list = append(list, i)
		}
	}
	if list == nil {
		return l.members()
	}
	return list
}

// connect opens connections for n clients, to some members in turn.
func (l *Load) connect(n int, members []int) (clients []*clientv3.Client, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for i := range n {
		c, err := l.Connect(members[i%len(members)])
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, closeAll, nil
}

// keys is how many keys are put to.
func (l *Load) keys() int { return cmp.Or(l.Keys, 10_000) }

// value is what each key has.
func (l *Load) value() string { return strings.Repeat("v", cmp.Or(l.Bytes, len(Value))) }

// key is the ith key.
func (l *Load) key(i int) string { return fmt.Sprintf("%s%08d", l.Prefix, i) }

// errNoPrefix is for a load whose keys would be mixed with those of others, which Clean would delete.
var errNoPrefix = errors.New("the keys of a load want a prefix of their own")

// Clean deletes the keys of all cases. Without a prefix it deletes nothing.
func (l *Load) Clean(ctx context.Context) error {
	if l.Prefix == "" {
		return errNoPrefix
	}
	c, err := l.Connect(l.Leader())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Delete(ctx, l.Prefix, clientv3.WithPrefix())
	return err
}
