package replica

import (
	"bytes"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// A leader counts the renewals that it answers and the leases that end by themselves, and goes on counting in a
// state from a snapshot.
func TestLeasesThatEndAndAreRenewedAreCounted(t *testing.T) {
	const now = machine.Mono(time.Hour)
	ls := countingLeases(now, 1, 2, 3)
	counted := func(what string, renewals, expired uint64) {
		t.Helper()
		if ls.renewals != renewals || ls.expired != expired {
			t.Errorf("%s: %d renewals and %d leases that expired are counted, want %d and %d", what, ls.renewals, ls.expired, renewals, expired)
		}
	}
	ask := func(lease int64, renew bool) { ls.ask(now, asker{2, 1}, leaseAsk{ID: 4, Lease: lease, Renew: renew}) }
	ask(1, true)
	counted("a renewal", 1, 0)
	ask(1, false)
	counted("a look", 1, 0)
	ask(9, true)
	counted("a renewal of none", 1, 0)
	ls.table[2].mark = &mark{6000, 6000}
	ask(2, true)
	counted("a renewal that waits", 1, 0)
	ls.changed(now, []leaseChange{{ID: 2, Kind: leaseCheckpointed}})
	counted("its answer", 2, 0)
	ls.changed(now, []leaseChange{{ID: 1, Kind: leaseGone}})
	counted("a revocation", 2, 0)
	ls.table[3].expiring = true
	ask(3, true)
	ls.changed(now, []leaseChange{{ID: 3, Kind: leaseGone}, {ID: 3, Kind: leaseGone}})
	counted("an expiry", 2, 1)
	ls.init(nil)
	counted("a snapshot", 2, 1)
}

// A snapshot from the leader takes the place of a state, which goes on counting.
func TestASnapshotLeavesCounts(t *testing.T) {
	a, counts := NewApplier(1, 7), new(kv.Counts)
	a.Store().Counts = counts
	var b bytes.Buffer
	snap := a.Snapshot()
	defer snap.Release()
	if _, err := snap.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := a.Restore(&b, snap.Index, snap.Term); err != nil {
		t.Fatal(err)
	}
	if a.Store().Counts != counts {
		t.Error("behind a snapshot nothing is counted")
	}
}
