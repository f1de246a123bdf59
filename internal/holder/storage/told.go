package storage

import (
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// storesTold is an event of the stores among the outcomes of a claim.
type storesTold struct {
	disklease.Beside
	quorumregister.Event
}

// ofStores is for quorumregister.Over.
func ofStores(e quorumregister.Event) disklease.Outcome { return storesTold{Event: e} }
