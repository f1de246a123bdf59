package flease

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A claim may be proposed beside those that hold if there is room, and if none that came before, and no heir,
// would take that. Since when only courtesy keeps it from trying is remembered, and begins anew when a lease keeps
// it out, or the first in the line waits for those that hold.
func TestWhatIsAdmissible(t *testing.T) {
	const lasts, ago = 5000, -5000 // milliseconds
	type lease struct {
		until    Time // from now on
		slots    int32
		released bool
		heir     uint16
	}
	poll := func() time.Duration { cfg, _ := testConfig(1, 3).Complete(); return cfg.poll() }()
	const mine = 100 // the claim's ticket
	for name, tt := range map[string]struct {
		leases  []lease
		queue   []Waiter
		slots   int32 // of the claim
		stands  bool  // acceptors know its place in the line
		yielded time.Duration
		ok      bool
		since   time.Duration // how long it has yielded then; -1 for not at all
	}{
		"nobody holds":                           {slots: 1, yielded: -1, ok: true, since: -1},
		"another holds":                          {leases: []lease{{until: lasts, slots: 1}}, slots: 1, yielded: -1, since: -1},
		"another holds, and before it yielded":   {leases: []lease{{until: lasts, slots: 1}}, slots: 1, yielded: 9 * poll, since: -1},
		"another's lease, a moment before its ε": {leases: []lease{{until: -99, slots: 1}}, slots: 1, yielded: -1, since: -1},
		"another's lease, behind its ε":          {leases: []lease{{until: -100, slots: 1}}, slots: 1, yielded: -1, ok: true, since: -1},
		"another's lease, given back":            {leases: []lease{{until: lasts, slots: 1, released: true}}, slots: 1, yielded: -1, ok: true, since: -1},
		"two share, and it may":                  {leases: []lease{{until: lasts, slots: Shared}, {until: lasts, slots: Shared}}, slots: Shared, yielded: -1, ok: true, since: -1},
		"of two that shared one is over":         {leases: []lease{{until: ago, slots: 1}, {until: lasts, slots: Shared}}, slots: Shared, yielded: -1, ok: true, since: -1},
		"two share, and it is for two":           {leases: []lease{{until: lasts, slots: Shared}, {until: lasts, slots: Shared}}, slots: 2, yielded: -1, since: -1},
		"two share, and it is for three":         {leases: []lease{{until: lasts, slots: Shared}, {until: lasts, slots: Shared}}, slots: 3, yielded: -1, ok: true, since: -1},
		"two share, one of which is for two":     {leases: []lease{{until: lasts, slots: Shared}, {until: lasts, slots: 2}}, slots: Shared, yielded: -1, since: -1},
		"all that can share":                     {leases: slices.Repeat([]lease{{until: lasts, slots: Shared}}, MaxHoldings), slots: Shared, yielded: -1, since: -1},
		"one less":                               {leases: slices.Repeat([]lease{{until: lasts, slots: Shared}}, MaxHoldings-1), slots: Shared, yielded: -1, ok: true, since: -1},

		"one is before it": {queue: []Waiter{{mine - 1, 1}}, slots: 1, stands: true, yielded: -1, since: 0},
		"one is before it, and it has yielded for long": {queue: []Waiter{{mine - 1, 1}}, slots: 1, stands: true, yielded: 4 * poll, since: 4 * poll},
		"one is before it, and it has yielded enough":   {queue: []Waiter{{mine - 1, 1}}, slots: 1, stands: true, yielded: 4*poll + 1, ok: true, since: 4*poll + 1},
		"it is the first":                                {queue: []Waiter{{mine, 1}, {mine + 1, 1}}, slots: 1, stands: true, yielded: -1, ok: true, since: -1},
		"one is behind it":                               {queue: []Waiter{{mine + 1, 1}}, slots: 1, stands: true, yielded: -1, ok: true, since: -1},
		"it is new, and one has waited":                  {queue: []Waiter{{mine + 1, 1}}, slots: 1, yielded: -1, since: 0},
		"one is before it, and both share":               {queue: []Waiter{{mine - 1, Shared}}, slots: Shared, stands: true, yielded: -1, ok: true, since: -1},
		"one is before it, and it wants to be alone":     {queue: []Waiter{{mine - 1, Shared}}, slots: 1, stands: true, yielded: -1, since: 0},
		"a writer waits for readers, and it is a reader": {leases: []lease{{until: lasts, slots: Shared}}, queue: []Waiter{{mine - 1, 1}}, slots: Shared, stands: true, yielded: 9 * poll, since: -1},
		"a writer waits behind a reader that could come": {leases: []lease{{until: lasts, slots: Shared}}, queue: []Waiter{{mine - 2, Shared}, {mine - 1, 1}}, slots: Shared, stands: true, yielded: -1, since: 0},

		"a writer waits for readers, and a reader behind it": {leases: []lease{{until: lasts, slots: Shared}}, queue: []Waiter{{mine - 2, 1}, {mine - 1, Shared}}, slots: Shared, stands: true, yielded: 9 * poll, since: -1},
		"another is the heir, and one that could come waits": {leases: []lease{{until: lasts, slots: 1, released: true, heir: 2}}, queue: []Waiter{{mine - 1, Shared}}, slots: Shared, stands: true, yielded: -1, since: 0},
		"another is the heir":                                {leases: []lease{{until: lasts, slots: 1, released: true, heir: 2}}, slots: 1, yielded: -1, since: 0},
		"another was the heir":                               {leases: []lease{{until: 0, slots: 1, released: true, heir: 2}}, slots: 1, yielded: -1, ok: true, since: -1},
		"it is the heir":                                     {leases: []lease{{until: lasts, slots: 1, released: true, heir: 1}}, queue: []Waiter{{mine - 1, 1}}, slots: 1, stands: true, yielded: -1, ok: true, since: -1},
		"it is the heir, and another holds":                  {leases: []lease{{until: lasts, slots: 1, released: true, heir: 1}, {until: lasts, slots: 1}}, slots: 1, yielded: -1, since: -1},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.ask(1, Acquire{ID: 7, Name: "a"})
		claim := &p.claims[p.byID[7]]
		at := &p.attempts[claim.att]
		claim.ticket, claim.slots, claim.lined = mine, tt.slots, tt.stands
		if claim.yielded = 0; tt.yielded >= 0 {
			claim.yielded = p.now.Mono.Add(-tt.yielded)
		}
		var all, hold Value
		for i, l := range tt.leases {
			h := Holding{Token: BallotOf(p.c-9000, uint16(i), 3), Until: p.c + l.until, Incarnation: 1, Slots: l.slots, Owner: 3, Released: l.released, Heir: l.heir}
			if all = append(all, h); !l.released && l.until > -100 {
				hold = append(hold, h)
			}
		}
		at.value, at.queue = all, tt.queue
		var others Value
		if ok := p.admissible(claim.att, &others); ok != tt.ok {
			t.Errorf("%s: it may be proposed: %v, want %v", name, ok, tt.ok)
		}
		if tt.ok && !reflect.DeepEqual(others, hold) {
			t.Errorf("%s: beside it hold %+v, want %+v", name, others, hold)
		}
		want := machine.Mono(0)
		if tt.since >= 0 {
			want = p.now.Mono.Add(-tt.since)
		}
		if claim.yielded != want {
			t.Errorf("%s: it yields since %v, want %v", name, claim.yielded, want)
		}
	}
}
