package main

import (
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// carrier is a store whose writes carry something. To renew a lease is to Put its register.
// The carried operation is done before that. If it fails, the Put and the renewal fail too,
// and both are tried again. The renewal counts from when it was begun, so all that was
// there to be carried then is on disk when the lease has been prolonged.
//
// The store is slower by what it carries, and the claim's δ adapts to that: carry little.
type carrier struct {
	register.Store
	carry func() error
}

func (c carrier) Do(ops []register.Op) []register.Reply {
	puts := 0
	for _, op := range ops {
		if _, put := op.Op.(quorumregister.Put); put {
			puts++
		}
	}
	if puts == 0 {
		return c.Store.Do(ops)
	}
	err := c.carry()
	if err == nil {
		return c.Store.Do(ops)
	}
	replies := make([]register.Reply, len(ops))
	var others []register.Op
	var places []int
	for i, op := range ops {
		if _, put := op.Op.(quorumregister.Put); put {
			replies[i].Err = err
			continue
		}
		others, places = append(others, op), append(places, i)
	}
	for i, reply := range c.Store.Do(others) {
		replies[places[i]] = reply
	}
	return replies
}
