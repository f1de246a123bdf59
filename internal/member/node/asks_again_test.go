package node

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member that waits to be admitted asks again over its existing connection, for the other may not
// have known it at the first question.
func TestWhoIsNotAdmittedAsksAgain(t *testing.T) {
	other := listen(t)
	at := "http://" + other.Addr().String()
	var own string
	n := lonely(t, func(cfg *Config) {
		own = cfg.Peers["a"]
		cfg.Peers = map[string]string{"a": own, "b": at}
	})
	var asked atomic.Int64
	tr, err := peer.New(peer.Config{
		Self: memberID(at, "", ""), ClusterID: n.ClusterID(), Listener: other, Logger: slog.New(slog.DiscardHandler),
		Peers: map[machine.NodeID]string{n.id: own[len("http://"):]},
		Deliver: func(_ machine.NodeID, msgs [][]byte) {
			for _, m := range msgs {
				var g greeting
				if len(m) > 0 && m[0] == wireGreeting && json.Unmarshal(m[1:], &g) == nil && g.Ask {
					asked.Add(1)
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for end := time.Now().Add(20 * time.Second); asked.Load() < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a member that is not admitted has asked %d times in 20 s", asked.Load())
		}
	}
}
