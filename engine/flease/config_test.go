package flease

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestOptionsReachThePeer: each field of a Config is passed on, and to the right place.
func TestOptionsReachThePeer(t *testing.T) {
	l, secure, logger := &net.TCPListener{}, &tls.Config{}, slog.New(slog.DiscardHandler)
	asked := false
	cfg := Config{
		Cluster: "c", Self: "a:1", Membership: func(context.Context, Members) (Members, error) { asked = true; return Members{}, nil },
		TMax: 1, Epsilon: 2, RoundTimeout: 3, Guard: 4, Replicas: 5, MaxClaims: 6, TLS: secure, Listen: "b:1", Listener: l,
		State: "dir", CheckClock: true, Logger: logger,
	}
	want := flease.Config{
		Cluster: "c", Self: "a:1", TMax: 1, Epsilon: 2, RoundTimeout: 3, Guard: 4, Replicas: 5, MaxClaims: 6, TLS: secure,
		Listen: "b:1", Listener: l, State: "dir", CheckClock: true, Logger: logger,
	}
	for v, i := reflect.ValueOf(cfg), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test says nothing of Config.%s", v.Type().Field(i).Name)
		}
	}
	got := cfg.peer()
	if _, err := got.Membership(t.Context(), flease.Members{}); err != nil || !asked {
		t.Errorf("the peer asks for its members: %v, and the Membership is asked: %v", err, asked)
	}
	if got.Membership = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("the peer is configured as %+v, want %+v", got, want)
	}
	if got := (Config{}).peer(); !reflect.DeepEqual(got, flease.Config{}) {
		t.Errorf("an empty Config configures %+v, want the defaults", got)
	}
}

// TestMembers: a peer is told the members that the user's Membership returns, and the Membership what the peer knows.
func TestMembers(t *testing.T) {
	first := Members{Epoch: 1, Addrs: map[uint64]string{1: "a:1"}}
	next := Members{Epoch: 2, Addrs: map[uint64]string{3: "c:1"}, Was: first.Addrs}
	known := flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1"}}
	want := flease.Members{Epoch: 2, Addrs: map[machine.NodeID]string{3: "c:1"}, Was: map[machine.NodeID]string{1: "a:1"}}
	trouble := errors.New("odd")
	got, err := Membership(func(_ context.Context, known Members) (Members, error) {
		if !reflect.DeepEqual(known, first) {
			t.Errorf("the Membership is told of %v, want %v", known, first)
		}
		return next, trouble
	}).peer()(t.Context(), known)
	if err != trouble || !reflect.DeepEqual(got, want) {
		t.Errorf("the peer is told of %v and %v, want %v and %v", got, err, want, trouble)
	}
	if got, err := Fixed(next)(t.Context(), Members{}); err != nil || !reflect.DeepEqual(got, next) {
		t.Errorf("the fixed members are %v and %v, want %v", got, err, next)
	}
	if got, err := ParseMembers("a:1"); err != nil || !reflect.DeepEqual(got, first) {
		t.Errorf("the list has %v and %v, want %v", got, err, first)
	}
}
