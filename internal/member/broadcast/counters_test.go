package broadcast

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Each message is counted by its purpose, in any epoch.
func TestMessagesAreCountedByTheirPurpose(t *testing.T) {
	alone, err := Start(Config{ID: 1, Group: 9, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	of := func(s Stats) map[string]Traffic {
		return map[string]Traffic{"Submits": s.Submits, "Consensus": s.Consensus, "Leases": s.Leases, "Heartbeats": s.Heartbeats, "CatchUp": s.CatchUp}
	}
	for want, bodies := range map[string][]any{
		"Submits":   {abcast.Submit{}},
		"Consensus": {fastct.Estimate{}, fastct.NewEstimate{}, fastct.Ack{}, fastct.Nack{}, fastct.Abort{}, fastct.Call{}, fastct.Decide{}},
		"Leases":    {asynclease.Lease{}, asynclease.Ack{}, asynclease.Nack{}, asynclease.Give{}},
		"Heartbeats": {
			fastct.Counts{}, abcast.Status{}, introduction{}, met{}, forgot{},
		},
		"CatchUp": {fastct.Trimmed{}, abcast.Fetch{}, abcast.Decisions{}, abcast.Transfer{}, want{}},
	} {
		for _, body := range bodies {
			for _, b := range []any{body, abcast.In{Epoch: 2, Body: body}} {
				before := of(alone.Stats())
				alone.sent.add(b, 7)
				for name, now := range of(alone.Stats()) {
					added := Traffic{now.Messages - before[name].Messages, now.Bytes - before[name].Bytes}
					if name == want && added != (Traffic{1, 7}) || name != want && added != (Traffic{}) {
						t.Errorf("a %T of 7 bytes adds %+v to %s; it is one of %s", b, added, name, want)
					}
				}
			}
		}
	}
}
