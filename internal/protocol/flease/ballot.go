package flease

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Time is a reading of the synchronized clock in milliseconds since the beginning of
// 2020, UTC, rounded down. All rules that compare readings work on these: since ε and
// t_max are whole milliseconds, rounding down changes no comparison.
type Time int64

const (
	origin = 1577836800000 // 2020 in milliseconds since 1970

	memberBits = 10
	seqBits    = 13

	// MaxMember is the greatest index that a member may have; the least is 1.
	MaxMember = 1<<memberBits - 1
)

// TimeOf rounds a reading of the synchronized clock down.
func TimeOf(c machine.Wall) Time {
	ms := int64(c) / int64(time.Millisecond)
	if int64(c)%int64(time.Millisecond) < 0 {
		ms--
	}
	return Time(ms - origin)
}

// Wall is the same moment as a reading of a wall clock.
func (t Time) Wall() machine.Wall { return machine.Wall((int64(t) + origin) * int64(time.Millisecond)) }

// millis rounds a duration up.
func millis(d time.Duration) Time { return Time((d + time.Millisecond - 1) / time.Millisecond) }

func (t Time) duration() time.Duration { return time.Duration(t) * time.Millisecond }

// Ballot is the k of section 3.2 in one word, so that ballots and fencing tokens are
// compared as plain integers: 41 bits of Time, 13 bits of sequence, 10 bits of member
// index. They are totally ordered, by time first. The paper's fuzzy comparison (3.6, times
// within ε count as equal) is no order: see package doc, E1.
type Ballot uint64

// ballotAt is the least ballot of a time.
func ballotAt(t Time) Ballot {
	return Ballot(uint64(max(t, 0)) << (seqBits + memberBits))
}

// BallotOf is a ballot made of its parts, for scripts and tests.
func BallotOf(t Time, seq uint16, member machine.NodeID) Ballot {
	return ballotAt(t) | Ballot(seq&(1<<seqBits-1))<<memberBits | Ballot(member&MaxMember)
}

// Time is when the ballot was drawn, by a clock that is not ahead of the fastest.
func (k Ballot) Time() Time { return Time(k >> (seqBits + memberBits)) }

// Member is the index of the member that drew it.
func (k Ballot) Member() machine.NodeID { return machine.NodeID(k & MaxMember) }

func (k Ballot) String() string {
	return fmt.Sprintf("%d.%d/%d", k.Time(), k>>memberBits&(1<<seqBits-1), k.Member())
}

// hlc is a hybrid logical clock that draws ballots. Its time is that of the fastest clock
// it has heard of, so a peer with a slow clock wins, too. That serves fairness; the order
// of ballots does not depend on it.
type hlc struct{ last Ballot }

// next draws a ballot of member that is greater than all before and all observed.
// A sequence that is full borrows from the next millisecond.
func (h *hlc) next(c Time, member machine.NodeID) Ballot {
	k := max(ballotAt(c)>>memberBits, h.last>>memberBits+1)<<memberBits | Ballot(member)
	h.last = k
	return k
}

// observe takes note of another's ballot, one that was not refused as being ahead.
func (h *hlc) observe(k Ballot) { h.last = max(h.last, k) }
