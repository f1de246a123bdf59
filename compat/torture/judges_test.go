package torture

import (
	"slices"
	"testing"
	"time"
)

const sec = time.Second

// good is a history that every judge of histories accepts, and its events.
func good() ([]operation, []event) {
	return []operation{
			{worker: 0, kind: kindPut, key: "a", value: "1", start: 1, end: 2, known: true, revision: 2},
			{worker: 1, kind: kindGet, key: "a", start: 3, end: 4, known: true, got: "1", revision: 2},
			{worker: 0, kind: kindCAS, key: "a", old: "1", value: "2", start: 5, end: 8, known: true, swapped: true, revision: 3},
			{worker: 1, kind: kindPut, key: "b", value: "3", start: 5, end: 9}, // no answer
			{worker: 1, kind: kindCAS, key: "a", old: "1", value: "4", start: 10, end: 11, known: true, got: "2", revision: 4},
			{worker: 0, kind: kindDelete, key: "a", start: 12, end: 13, known: true, deleted: true, revision: 5},
			{worker: 0, kind: kindGet, key: "a", start: 14, end: 15, known: true, revision: 5},
		}, []event{
			{"a", "1", 2}, {"a", "2", 3}, {"b", "3", 4}, {"a", "", 5},
		}
}

func judgeHistory(history []operation, events []event) (porcupine, audited bool) {
	return linearizable(history, 10*sec) == nil, len(audit(history, events)) == 0
}

// TestJudgesOfHistories shows each fault to the judges that must see it.
func TestJudgesOfHistories(t *testing.T) {
	tests := []struct {
		name               string
		lie                func([]operation, []event) ([]operation, []event)
		porcupine, audited bool // accepted
	}{
		{"the truth", func(h []operation, e []event) ([]operation, []event) { return h, e }, true, true},
		{"a stale read", func(h []operation, e []event) ([]operation, []event) {
			h[6].got = "2"
			return h, e
		}, false, false},
		{"a stale read with a stale revision", func(h []operation, e []event) ([]operation, []event) {
			h[6].got, h[6].revision = "2", 4
			return h, e
		}, false, false},
		{"a lost write", func(h []operation, e []event) ([]operation, []event) {
			return slices.Insert(h, 1, operation{worker: 2, kind: kindPut, key: "c", value: "9", start: 1, end: 2, known: true, revision: 3}), e
		}, true, false},
		{"a value from nowhere", func(h []operation, e []event) ([]operation, []event) {
			h[1].got = "7"
			return h, e
		}, false, false},
		{"a swap that could not be", func(h []operation, e []event) ([]operation, []event) {
			h[2].old = "5"
			return h, e
		}, false, true},
		{"a write at an old revision", func(h []operation, e []event) ([]operation, []event) {
			h[5].revision, e[3].revision = 3, 3
			return h, e
		}, true, false},
		{"a delete that found nothing", func(h []operation, e []event) ([]operation, []event) {
			h[5].deleted = false
			return h, e
		}, false, true},
	}
	for _, tc := range tests {
		gotPorcupine, gotAudited := judgeHistory(tc.lie(good()))
		if gotPorcupine != tc.porcupine || gotAudited != tc.audited {
			t.Errorf("%s: accepted by porcupine %v, want %v; by the audit %v, want %v",
				tc.name, gotPorcupine, tc.porcupine, gotAudited, tc.audited)
		}
	}
}

func TestJudgeOfHolders(t *testing.T) {
	mk := func(holder string, token int64, at time.Duration) claimed {
		return claimed{claim{"l", token, at}, holder}
	}
	tests := []struct {
		name   string
		claims []claimed
		fair   bool
	}{
		{"in turn", []claimed{mk("x", 2, 1), mk("x", 2, 5), mk("y", 3, 6), mk("y", 3, 9)}, true},
		{"printed late", []claimed{mk("y", 3, 6), mk("x", 2, 1), mk("x", 2, 5)}, true},
		{"one instant too long", []claimed{mk("x", 2, 1), mk("y", 3, 6), mk("x", 2, 6)}, false},
		{"within", []claimed{mk("x", 2, 1), mk("x", 2, 100), mk("y", 3, 6), mk("y", 3, 7), mk("z", 4, 50)}, false},
		{"a token again", []claimed{mk("x", 2, 1), mk("y", 2, 6)}, false},
		{"a smaller token", []claimed{mk("x", 4, 1), mk("y", 3, 6)}, false},
	}
	for _, tc := range tests {
		if _, err := exclusive(tc.claims); (err == nil) != tc.fair {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestJudgeOfLeases(t *testing.T) {
	const ttl, slack = holderTTL * sec, 2 * sec
	tests := []struct {
		name  string
		lease *observed
		ended time.Duration // 0 for never
		at    time.Duration
		fair  bool
	}{
		{"in time", &observed{key: "k", sent: 10 * sec, maybe: 10 * sec, abandoned: true}, 10*sec + ttl, 60 * sec, true},
		{"early", &observed{key: "k", sent: 10 * sec, maybe: 10 * sec, abandoned: true}, 10*sec + ttl - 1, 60 * sec, false},
		{"never", &observed{key: "k", sent: 10 * sec, maybe: 10 * sec, abandoned: true}, 0, 60 * sec, false},
		{"not yet", &observed{key: "k", sent: 10 * sec, maybe: 10 * sec, abandoned: true}, 0, 10*sec + ttl + slack, true},
		{"a lost answer", &observed{key: "k", sent: 10 * sec, maybe: 12 * sec, abandoned: true}, 0, 12*sec + ttl + slack, true},
		{"kept", &observed{key: "k", sent: 59 * sec, maybe: 59 * sec}, 0, 60 * sec, true},
		{"kept in vain", &observed{key: "k", sent: 10 * sec, maybe: 10 * sec}, 50 * sec, 60 * sec, false},
	}
	for _, tc := range tests {
		var deletions []deletion
		if tc.ended > 0 {
			deletions = []deletion{{"k", tc.ended}}
		}
		l := leases{all: []*observed{tc.lease}}
		if _, _, err := l.judge(deletions, tc.at, slack); (err == nil) != tc.fair {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestScheduleRepeats(t *testing.T) {
	a, b := schedule(3, sec*60), schedule(3, sec*60)
	if !slices.Equal(a, b) {
		t.Error("a seed has two schedules")
	}
	faults := map[fault]bool{}
	for seed := range uint64(10) {
		for _, a := range schedule(seed, 60*sec) {
			faults[a.Fault] = true
		}
	}
	if len(faults) != int(killHolder)+1 {
		t.Errorf("ten schedules have %d kinds of fault", len(faults))
	}
}
