package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// Agreements are what storage.Leaser has beside leases: one value for each name, for ever.
type Agreements interface {
	Agree(ctx context.Context, name string, proposal []byte) ([]byte, error)
	Decided(ctx context.Context, name string) (value []byte, ok bool, err error)
}

// Owner is the owner of an epoch.
type Owner struct {
	ID      string `json:"id"`      // random, of one life of a process
	Address string `json:"address"` // for clients
}

// NewOwner returns this process, as it is in this life.
func NewOwner(address string) Owner { return Owner{rand.Text(), address} }

// Epochs are the owners of a name, one after the other, from epoch 1.
type Epochs struct {
	Store Agreements
	Name  string
	known uint64 // the greatest that was seen to be decided
}

func (e *Epochs) instance(epoch uint64) string { return fmt.Sprintf("%s/%d", e.Name, epoch) }

// Owner tells whose an epoch is, if that is decided.
func (e *Epochs) Owner(ctx context.Context, epoch uint64) (o Owner, ok bool, err error) {
	value, ok, err := e.Store.Decided(ctx, e.instance(epoch))
	if !ok || err != nil {
		return o, false, err
	}
	e.known = max(e.known, epoch)
	return o, true, json.Unmarshal(value, &o)
}

// Propose has the owner of an epoch decided, and returns the owner. The epoch before has to be decided.
func (e *Epochs) Propose(ctx context.Context, epoch uint64, me Owner) (o Owner, err error) {
	proposal, err := json.Marshal(me)
	if err != nil {
		return o, err
	}
	value, err := e.Store.Agree(ctx, e.instance(epoch), proposal)
	if err != nil {
		return o, err
	}
	e.known = max(e.known, epoch)
	return o, json.Unmarshal(value, &o)
}

// Newest returns the latest epoch that is decided, 0 if none is, and its owner. Epochs are
// decided in order and without gaps, so it can be searched for.
func (e *Epochs) Newest(ctx context.Context) (epoch uint64, o Owner, err error) {
	decided := func(epoch uint64) bool {
		ok := false
		if err == nil {
			_, ok, err = e.Owner(ctx, epoch)
		}
		return ok
	}
	step := uint64(1)
	for decided(e.known + step) {
		step *= 2
	}
	for above := e.known + step; above-e.known > 1 && err == nil; {
		if middle := e.known + (above-e.known)/2; !decided(middle) {
			above = middle
		}
	}
	if err == nil && e.known > 0 {
		o, _, err = e.Owner(ctx, e.known)
	}
	return e.known, o, err
}
