package broadcast

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// alone is a group of one that has delivered some messages, and a turn of it in which it trims and has more to do.
func alone(t *testing.T) *acquainted {
	t.Helper()
	cfg := Config{ID: 1, Group: 1, Members: map[machine.NodeID]string{1: "a:1"}, Dir: "x"}
	m, err := abcast.New(cfg.machine(2), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &acquainted{Machine: m, self: introduction{Dir: 5, Life: 1, Lives: []birth{{50, 1}}}, id: 1, counts: true, notes: map[machine.NodeID]note{2: noteOf2}, mark: func() uint64 { return 9 }}
	now := machine.Now{Mono: 1}
	steps := func(input any) {
		queue := []any{input}
		for len(queue) > 0 {
			stage.Feed(a, now, queue[0])
			queue = queue[1:]
			rd := a.Ready()
			for _, e := range rd.Sends {
				queue = append(queue, e)
			}
			for _, p := range rd.Persists {
				for _, e := range p.Then {
					queue = append(queue, e)
				}
			}
		}
	}
	message := func(seq uint64) abcast.Input {
		return abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, 7), Seq: seq, Payload: []byte{byte(seq)}}}
	}
	steps(stage.Wake{})
	for seq := range uint64(3) {
		steps(message(seq + 1))
	}
	if m.Position() != 3 {
		t.Fatalf("a group of one has delivered %d messages, want 3", m.Position())
	}
	a.Step(now, message(4))
	a.Step(now, abcast.Trim{Position: 2})
	a.Step(now, message(5))
	return a
}

// When the log is written anew, the new one has all that is known then, also of others, and all answers wait for it:
// none is lost, and none goes before it.
func TestALogThatIsWrittenAnew(t *testing.T) {
	plain, a := alone(t), alone(t)
	inner := plain.Machine.Ready()
	var then []machine.Envelope
	for _, p := range inner.Persists {
		then = append(then, p.Then...)
	}
	if len(inner.Persists) < 2 || len(then) == 0 {
		t.Fatalf("the turn writes %+v: want a new base, and something besides that is waited for", inner.Persists)
	}
	rd := a.Ready()
	if len(rd.Persists) != 1 {
		t.Fatalf("in the turn of a new base the log is told of %d records, want one in place of all: %+v", len(rd.Persists), rd.Persists)
	}
	if got := rd.Persists[0].Then; !reflect.DeepEqual(got, then) {
		t.Errorf("behind the new log there goes %+v, want %+v", got, then)
	}
	if got, want := rd.Persists[0].Record, (rewrite{append([]any{noteOf2, counted{}}, plain.Records()...)}); !reflect.DeepEqual(got, want) {
		t.Errorf("the new log has %+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(rd.Sends, inner.Sends) || !reflect.DeepEqual(rd.Outcomes, inner.Outcomes) {
		t.Errorf("in the turn of a new base there is sent %+v, and reported %+v; want %+v and %+v", rd.Sends, rd.Outcomes, inner.Sends, inner.Outcomes)
	}
}
