package castworld

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// judged plays a scene, and wants that its judge finds it wrong in these words, or finds nothing.
func judged(t *testing.T, name string, play func(*judge), want string) {
	t.Helper()
	j := newJudge(world.Rehearse())
	play(j)
	got := strings.Join(j.w.Failures(), "; ")
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("%s: found %q, want %q", name, got, want)
	}
}

// deliver has a member deliver messages from the first position on, which clients have broadcast. An empty
// one is a barrier, and one that begins with "members" is a change.
func deliver(j *judge, id machine.NodeID, payloads ...string) (s state) {
	for _, payload := range payloads {
		m := broadcast.Message{Position: s.position + 1, Payload: []byte(payload)}
		if strings.HasPrefix(payload, "members") {
			m.Members, m.Payload = map[machine.NodeID]string{1: payload}, nil
		} else if payload != "" {
			j.onBroadcast(payload)
		}
		s = s.after(what(m))
		j.onDelivery(id, s, m)
	}
	return s
}

// All members deliver the same messages in the same order, without gaps, each once, and none that no client
// has broadcast.
func TestOrderIsJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(j *judge)
		want string
	}{
		"the same at both":             {func(j *judge) { deliver(j, 1, "a", "b"); deliver(j, 2, "a", "b") }, ""},
		"one is behind":                {func(j *judge) { deliver(j, 1, "a", "b"); deliver(j, 2, "a") }, ""},
		"in turns":                     {func(j *judge) { deliver(j, 1, "a"); deliver(j, 2, "a", "b"); deliver(j, 1, "a", "b") }, ""},
		"two orders":                   {func(j *judge) { deliver(j, 1, "a", "b"); deliver(j, 2, "b") }, `one order: member 2 delivers "b" at 1, and another member "a"`},
		"two orders, later":            {func(j *judge) { deliver(j, 1, "a", "b"); deliver(j, 2, "a", "c") }, `one order: member 2 delivers "c" at 2, and another member "b"`},
		"changes of other members":     {func(j *judge) { deliver(j, 1, "members x"); deliver(j, 2, "members y") }, "one order: member 2"},
		"a change where there is none": {func(j *judge) { deliver(j, 1, "a"); deliver(j, 2, "members y") }, "one order: member 2"},
		"one twice":                    {func(j *judge) { deliver(j, 1, "a", "b", "a") }, `duplicate: member 1 delivers "a" at 3, and it was at 1`},
		"barriers":                     {func(j *judge) { deliver(j, 1, "", "a", "") }, ""},
		"changes":                      {func(j *judge) { deliver(j, 1, "members x", "members x") }, ""},
		"another state of the same order": {func(j *judge) {
			deliver(j, 1, "a")
			j.onDelivery(2, state{1, 77}, broadcast.Message{Position: 1, Payload: []byte("a")})
		}, "one order: member 2"},
		"a position of another message": {func(j *judge) {
			s := deliver(j, 1, "a")
			j.onBroadcast("b")
			j.onDelivery(1, s.after([]byte("b")), broadcast.Message{Position: 3, Payload: []byte("b")})
		}, "contiguity: member 1 delivers 3 after 1"},
		"beyond all others": {func(j *judge) {
			deliver(j, 1, "a")
			j.onBroadcast("c")
			j.onDelivery(2, state{3, 7}, broadcast.Message{Position: 3, Payload: []byte("c")})
		}, "contiguity: member 2 delivers 3, and nobody has delivered 2"},
		"a message that no client has broadcast": {func(j *judge) {
			j.onDelivery(1, state{}.after([]byte("a")), broadcast.Message{Position: 1, Payload: []byte("a")})
		}, `invention: member 1 delivers "a" at 1`},
	} {
		judged(t, name, tt.play, tt.want)
	}
	j := newJudge(world.Rehearse())
	deliver(j, 1, "a", "members x", "", "b")
	if n, changed := j.length(), j.changed(); n != 4 || changed != 1 || j.w.Counter("ordered") != 4 {
		t.Errorf("of four positions, one of which is a change, the judge knows %d and %d, and has counted %d", n, changed, j.w.Counter("ordered"))
	}
}

// A member that takes over a state takes that of a position, and of none that nobody has delivered.
func TestSnapshotsAreJudged(t *testing.T) {
	var s state
	for _, payload := range []string{"a", "b"} {
		s = s.after([]byte(payload))
	}
	for name, tt := range map[string]struct {
		s    state
		want string
	}{
		"the last":               {s, ""},
		"an earlier one":         {state{}.after([]byte("a")), ""},
		"of another position":    {state{1, s.sum}, "snapshot: member 2 installs another state after 1"},
		"of another order":       {state{2, 7}, "snapshot: member 2 installs another state after 2"},
		"of what is to come yet": {s.after([]byte("c")), "snapshot: member 2 installs another state after 3"},
	} {
		judged(t, name, func(j *judge) { deliver(j, 1, "a", "b"); j.onInstall(2, tt.s) }, tt.want)
	}
}

// A message that was said to be ordered is, and where it was said to be.
func TestAcknowledgmentsAreJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		payload string
		at      broadcast.Position
		want    string
	}{
		"it is there":                          {"b", 2, ""},
		"its position was not known":           {"b", 0, ""},
		"it is elsewhere":                      {"b", 1, `acknowledged: "b" was said to be at 1, and is at 2`},
		"it is nowhere":                        {"c", 2, `acknowledged: "c" was said to be ordered, and is not`},
		"it is nowhere, and nobody knew where": {"c", 0, `acknowledged: "c" was said to be ordered, and is not`},
	} {
		judged(t, name, func(j *judge) { deliver(j, 1, "a", "b"); j.onAcknowledgment(tt.payload, tt.at); j.judgeAcknowledged() }, tt.want)
	}
}
