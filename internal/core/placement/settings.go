package placement

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Policy is how a Planner chooses holders.
type Policy int

const (
	// Quorum is the paper's (section 3.4): a key is held by the leader and by those
	// floor(N/2) others that read it most. Keys that are written, and that only the leader
	// reads, are the leader's alone. Keys that nobody was seen to use are shared out.
	Quorum Policy = 1 + iota
	// Cost gives each cell those holders, the leader among them, with which all that
	// is read and written there takes the least time in sum.
	Cost
)

func (p Policy) String() string {
	switch p {
	case Quorum:
		return "quorum"
	case Cost:
		return "cost"
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// Settings of a Planner. A field that is 0 has its default.
type Settings struct {
	Policy Policy
	// Members are the group, in any order.
	Members []Member
	// Leader is the one at which the Planner runs. It holds everything.
	Leader machine.NodeID
	// Buckets is the number of hash buckets, a power of two up to MaxBuckets, which is
	// the default. More tell keys apart better; see the package's page for what fewer
	// cost.
	Buckets int
	// Cells is how many keys and ranges may have cells of their own: 256.
	Cells int
	// HalfLife is after how long an operation counts half: 5 minutes. It is how quick a
	// change of habits is followed, and how seldom a key may be read and be known.
	HalfLife time.Duration
	// Prior is how many operations of its own it takes until a cell counts as much as
	// what is usual: 5. Quorum has none.
	Prior float64
	// Price is how much less waiting, in all operations of about a half-life, a cell's
	// change of holders has to promise: 50 ms. Quorum counts a read that is not local as
	// the mean round trip to the leader, and has 20 ms.
	Price time.Duration
	// Doubt is by how many standard deviations of chance the promise has to exceed it:
	// 0.5. Quorum has 1, and 0 for the first members that read a key unread so far.
	Doubt float64
	// ByLeader says that writes take four one-way delays (Distances.WriteByLeader) and
	// not three.
	ByLeader bool
	// Nearest says that clients ask the nearest holder (Distances.ReadNearest), and not a
	// replica that asks the leader.
	Nearest bool
}

// errSettings says that a Planner cannot work with its settings.
var errSettings = errors.New("invalid settings for the planner of read leases")

// complete fills in defaults and checks.
func (s Settings) complete() (Settings, error) {
	ids := identities(s.Members)
	if err := checkMembers(ids); err != nil {
		return s, fmt.Errorf("%w: %w", errSettings, err)
	}
	if s.Buckets == 0 {
		s.Buckets = MaxBuckets
	}
	if s.Cells == 0 {
		s.Cells = 256
	}
	if s.HalfLife == 0 {
		s.HalfLife = 5 * time.Minute
	}
	if s.Prior == 0 {
		s.Prior = 5
	}
	if s.Price == 0 {
		s.Price = 50 * time.Millisecond
		if s.Policy == Quorum {
			s.Price = 20 * time.Millisecond
		}
	}
	if s.Doubt == 0 {
		s.Doubt = 0.5
		if s.Policy == Quorum {
			s.Doubt = 1
		}
	}
	if s.Policy == Quorum {
		s.Prior = 0
	}
	switch {
	case s.Policy != Quorum && s.Policy != Cost:
		return s, fmt.Errorf("%w: policy %d is neither quorum nor cost", errSettings, int(s.Policy))
	case place(ids, s.Leader) < 0:
		return s, fmt.Errorf("%w: the leader %d is not among the members %d", errSettings, s.Leader, ids)
	case s.Buckets < 1 || s.Buckets > MaxBuckets || s.Buckets&(s.Buckets-1) != 0:
		return s, fmt.Errorf("%w: %d buckets; want a power of two up to %d", errSettings, s.Buckets, MaxBuckets)
	case s.Cells < 0 || s.Cells > maxCells:
		return s, fmt.Errorf("%w: %d cells; want at most %d", errSettings, s.Cells, maxCells)
	case s.HalfLife < 0 || s.Price < 0 || !(s.Prior >= 0) || !(s.Doubt >= 0):
		return s, fmt.Errorf("%w: half-life, price, prior and doubt are not negative", errSettings)
	}
	return s, nil
}
