package fastctsim

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// The judge finds the forbidden messages of three members, and nothing else.
func TestJudge(t *testing.T) {
	from := func(id machine.NodeID, body any) machine.Envelope { return machine.Envelope{From: id, Body: body} }
	estimate := func(id machine.NodeID, round, ts int64, value string) machine.Envelope {
		return from(id, fastct.Estimate{CN: 1, Round: round, TS: ts, Value: []byte(value)})
	}
	imposes := func(id machine.NodeID, round int64, value string) machine.Envelope {
		return from(id, fastct.NewEstimate{CN: 1, Round: round, Value: []byte(value)})
	}
	ack := func(id machine.NodeID, round int64) machine.Envelope {
		return from(id, fastct.Ack{CN: 1, Round: round})
	}
	for _, tc := range []struct {
		name, want string
		sent       []machine.Envelope
	}{
		{"all is well", "", []machine.Envelope{
			imposes(1, 0, "a"), ack(2, 0), ack(2, 0), estimate(2, 4, 0, "a"), estimate(2, 4, 0, "a"), imposes(2, 4, "a"), ack(3, 4),
			estimate(3, 5, 4, "a"), ack(3, 4), imposes(2, 4, "a"), from(2, fastct.Decide{CN: 1, Round: 4}), imposes(3, 5, "a"),
		}},
		{"nothing was locked", "", []machine.Envelope{imposes(1, 0, "a"), ack(2, 0), imposes(2, 4, "b"), ack(3, 4), from(2, fastct.Decide{CN: 1, Round: 4})}},
		{"another instance", "", []machine.Envelope{imposes(1, 0, "a"), from(2, fastct.NewEstimate{CN: 2, Round: 1}), from(2, fastct.Decide{CN: 2, Round: 0, Whole: true})}},
		{"two f-rounds", "Lemma 5: instance 1 has the f-rounds 0 of member 1 and 1 of member 2", []machine.Envelope{imposes(1, 0, "a"), imposes(2, 1, "a")}},
		{"two estimates of a round", `member 1 imposes "a" and "b" in round 3`, []machine.Envelope{imposes(1, 3, "a"), imposes(1, 3, "b")}},
		{"acknowledged and left out", "B-1: instance 1: member 2 acknowledges round 0, and its estimate of round 4 is of round -1", []machine.Envelope{ack(2, 0), estimate(2, 4, -1, "b")}},
		{"acknowledged later", "B-1: instance 1: member 2 acknowledges round 4, and its estimate of round 5 is of round 0", []machine.Envelope{estimate(2, 5, 0, "b"), ack(2, 4)}},
		{"another value in a round", `has the estimates "b" of round -1 and "c" of round -1 in round 4`, []machine.Envelope{estimate(2, 4, -1, "b"), estimate(2, 4, -1, "c")}},
		{"another time in a round", `has the estimates "b" of round -1 and "b" of round 3 in round 4`, []machine.Envelope{estimate(2, 4, -1, "b"), estimate(2, 4, 3, "b")}},
		{"locked by acknowledgments", `Lemma 6: instance 1: round 0 is locked with "a", and round 4 imposes "b"`, []machine.Envelope{imposes(1, 0, "a"), ack(2, 0), ack(3, 0), imposes(2, 4, "b")}},
		{"locked by a decision", `Lemma 6: instance 1: round 0 is locked with "a", and round 4 imposes "b"`, []machine.Envelope{imposes(1, 0, "a"), imposes(2, 4, "b"), from(1, fastct.Decide{CN: 1, Round: 0})}},
	} {
		j := NewJudge(3)
		for _, e := range tc.sent {
			j.Sends(e)
		}
		if err := j.Err(); (err == nil) != (tc.want == "") || err != nil && (strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
