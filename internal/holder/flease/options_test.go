package flease

import (
	"log/slog"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestOptionsReachTheProtocol: each option of a Config that the protocol has, too, is passed on to it.
func TestOptionsReachTheProtocol(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Self: l.Addr().String(), Listener: l, Membership: Fixed(Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: l.Addr().String()}}),
		TMax: 123 * time.Minute, Epsilon: 45 * time.Millisecond, RoundTimeout: 678 * time.Millisecond,
		Guard: 6 * time.Minute, MaxClaims: 89, Replicas: 1, Logger: slog.New(slog.DiscardHandler), fresh: true,
	}
	leaser, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer leaser.Close()
	same := 0
	said, pure := reflect.ValueOf(cfg), reflect.ValueOf(leaser.Peer().pure)
	for i := range said.NumField() {
		option := said.Type().Field(i)
		got := pure.FieldByName(option.Name)
		if !got.IsValid() || got.Type() != option.Type || option.Name == "Self" {
			continue
		}
		same++
		if want := said.Field(i).Interface(); got.Interface() != want {
			t.Errorf("%s is %v, and the protocol goes by %v", option.Name, want, got)
		}
		if said.Field(i).IsZero() {
			t.Errorf("%s is an option of the protocol: give it a value here", option.Name)
		}
	}
	if want := []string{"TMax", "Epsilon", "RoundTimeout", "Guard", "MaxClaims"}; same != len(want) {
		t.Errorf("%d options have their counterparts in the protocol, want %v", same, want)
	}
	if n := leaser.Peer().pure.View.Replicas; n != cfg.Replicas {
		t.Errorf("cells are of %d peers, want %d", n, cfg.Replicas)
	}
	lease, err := leaser.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if left, most := time.Until(lease.Deadline()), time.Hour-cfg.Guard; left > most {
		t.Errorf("the holder stops in %v, want %v earlier than after the hour that it asked for", left, cfg.Guard)
	}
}
