package holders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// believed is a lease in which its holder believes until it is told otherwise.
type believed struct {
	tenure.Lease
	name  string
	token uint64
	lost  bool
	done  chan struct{}
	fails error // of its release
}

func (b *believed) Name() string                  { return b.name }
func (b *believed) Token() uint64                 { return b.token }
func (b *believed) Done() <-chan struct{}         { return b.done }
func (b *believed) Release(context.Context) error { return b.fails }
func (b *believed) Check() error {
	if b.lost {
		return tenure.ErrLost
	}
	return nil
}

// wantFound wants that the judge of a world has found one thing wrong, with these words, or nothing.
func wantFound(t *testing.T, name string, w *world.World, want string) {
	t.Helper()
	got := strings.Join(w.Failures(), "; ")
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("%s: found %q, want %q", name, got, want)
	}
}

// A judge finds tenures at once that exclude each other, and tokens that do not grow, and nothing else.
func TestTenuresAreJudged(t *testing.T) {
	// scene is a judge with tenures that begin in turn: of a, b, c and so on.
	type scene struct {
		j     *Judge
		holds []*hold
	}
	begin := func(s *scene, name string, slots int, token uint64) *hold {
		who := string(rune('a' + len(s.holds)))
		h := &hold{&believed{name: name, token: token}, &Holder{Name: who, Process: s.j.w.Start(who)}, slots}
		s.holds = append(s.holds, h)
		s.j.acquired(h)
		return h
	}
	lose := func(h *hold) { h.Lease.(*believed).lost = true }
	for _, tt := range []struct {
		name string
		play func(s *scene)
		want string
	}{
		{"one after the other", func(s *scene) { s.j.over(begin(s, "n", 1, 1), "releases"); begin(s, "n", 1, 2) }, ""},
		{"two at once", func(s *scene) { begin(s, "n", 1, 1); begin(s, "n", 1, 2) }, "two hold n at once: a with token 1 and b with token 2, of 2 in all"},
		{"the first of three has released", func(s *scene) {
			first := begin(s, "n", 2, 1)
			begin(s, "n", 2, 2)
			s.j.over(first, "releases")
			begin(s, "n", 2, 3)
		}, ""},
		{"another of three has released", func(s *scene) {
			begin(s, "n", 2, 1)
			s.j.over(begin(s, "n", 2, 2), "releases")
			begin(s, "n", 1, 3)
		}, "two hold n at once: a with token 1 and c with token 3"},
		{"the first knows that it has lost", func(s *scene) { lose(begin(s, "n", 1, 1)); begin(s, "n", 1, 2) }, ""},
		{"the first has ended", func(s *scene) { begin(s, "n", 1, 1).Who.Process.End(); begin(s, "n", 1, 2) }, ""},
		{"two names", func(s *scene) { begin(s, "n", 1, 2); begin(s, "m", 1, 1) }, ""},
		{"two that share", func(s *scene) { begin(s, "n", 2, 1); begin(s, "n", 2, 2) }, ""},
		{"three where two may share", func(s *scene) { begin(s, "n", 2, 1); begin(s, "n", 2, 2); begin(s, "n", 2, 3) }, "of 3 in all"},
		{"one for itself beside one that shares", func(s *scene) { begin(s, "n", 3, 1); begin(s, "n", 1, 2) }, "two hold n at once"},
		{"the same token again", func(s *scene) { s.j.over(begin(s, "n", 1, 7), "releases"); begin(s, "n", 1, 7) }, "tokens: b holds n with token 7, and there was one with token 7 before"},
		{"an older token after a death", func(s *scene) { s.j.over(begin(s, "n", 1, 7), "dies with"); begin(s, "n", 1, 6) }, "tokens: b holds n with token 6"},
		{"an older token than of one that shared", func(s *scene) { s.j.over(begin(s, "n", 2, 7), "releases"); begin(s, "n", 1, 6) }, "tokens: b holds n with token 6"},
		{"two that share, told in another order", func(s *scene) { begin(s, "n", 2, 7); begin(s, "n", 2, 6) }, ""},
		{"one that shares has the token of one that did not", func(s *scene) { s.j.over(begin(s, "n", 1, 7), "releases"); begin(s, "n", 2, 7) }, "tokens: b shares n with token 7, and there was an exclusive tenure with token 7 before"},
		{"one that shares is older than one two before", func(s *scene) {
			s.j.over(begin(s, "n", 1, 7), "releases")
			s.j.over(begin(s, "n", 2, 9), "releases")
			begin(s, "n", 2, 6)
		}, "tokens: c shares n with token 6"},
		{"one that believes anew", func(s *scene) {
			first := begin(s, "n", 1, 1)
			lose(first)
			begin(s, "n", 1, 2)
			first.Lease.(*believed).lost = false
			over := make(chan struct{})
			go s.j.Watch(over)
			time.Sleep(time.Second)
			close(over)
		}, "two hold n at once: a with token 1 and b with token 2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scene{j: NewJudge(world.Rehearse())}
			tt.play(s)
			wantFound(t, tt.name, s.j.w, tt.want)
		})
	}
}

// A judge counts the tenures that take the place of one that was not released, for a world in which none does
// shows nothing.
func TestTakeoversAreCounted(t *testing.T) {
	for how, want := range map[string]int{"releases": 0, "loses": 1, "dies with": 1} {
		j := NewJudge(world.Rehearse())
		for token := range uint64(3) {
			h := &hold{&believed{name: "n", token: token + 1}, &Holder{Process: j.w.Start("a")}, 1}
			if j.acquired(h); token == 0 {
				j.over(h, how)
			} else {
				j.over(h, "releases")
			}
		}
		if got := j.w.Counter("takeovers"); got != want || j.w.Counter("acquisitions") != 3 || j.w.Counter("shared") != 0 {
			t.Errorf("of three tenures the first %s: counted are %d takeovers and %d tenures, want %d and 3", how, got, j.w.Counter("acquisitions"), want)
		}
	}
}

// recorder is a Leaser that has one record, and gives leases until it has none.
type recorder struct {
	Leaser
	record       string
	reads, sets  error
	waits, tries []tenure.Lease
}

func (r *recorder) Record(context.Context, string) ([]byte, error) { return []byte(r.record), r.reads }
func (r *recorder) SetRecord(_ context.Context, _ tenure.Lease, record []byte) error {
	if r.sets == nil {
		r.record = string(record)
	}
	return r.sets
}
func (r *recorder) Takeover() time.Duration { return time.Minute }
func (r *recorder) Acquire(context.Context, tenure.Claim) (tenure.Lease, error) {
	return next(&r.waits)
}
func (r *recorder) TryAcquire(context.Context, tenure.Claim) (tenure.Lease, error) {
	return next(&r.tries)
}

func next(list *[]tenure.Lease) (tenure.Lease, error) {
	if len(*list) == 0 {
		return nil, tenure.ErrUnavailable
	}
	l := (*list)[0]
	*list = (*list)[1:]
	return l, nil
}

// The record of a name is the last one that was set, or a later one, and none of a tenure that is to come.
func TestRecordsAreJudged(t *testing.T) {
	odd := errors.New("odd")
	for _, tt := range []struct {
		name  string
		set   uint64 // the last one that is known
		r     recorder
		lost  bool // the lease
		ended bool // the process
		want  string
		knows uint64 // in the end
	}{
		{"none was set", 0, recorder{}, false, false, "", 6},
		{"the last one", 5, recorder{record: "5"}, false, false, "", 6},
		{"a later one than is known", 4, recorder{record: "5"}, false, false, "", 6},
		{"an older one", 5, recorder{record: "4"}, false, false, "a reads that of token 4 of n, and that of token 5 was set before", 6},
		{"none any more", 5, recorder{}, false, false, "a reads that of token 0 of n, and that of token 5 was set before", 6},
		{"what no holder has set", 5, recorder{record: "x"}, false, false, `a reads "x" of n, which nobody has set`, 6},
		{"one that is to come", 5, recorder{record: "7"}, false, false, "a holds n with token 6, and reads the record of token 7", 6},
		{"a later holder's, for one that has lost", 5, recorder{record: "7"}, true, false, "", 6},
		{"it cannot be read", 5, recorder{record: "4", reads: odd}, false, false, "", 6},
		{"it cannot be set", 5, recorder{record: "5", sets: odd}, false, false, "", 5},
		{"the process has ended", 5, recorder{record: "4"}, false, true, "", 5},
		{"a later one is known", 8, recorder{record: "8"}, true, false, "", 8},
	} {
		w := world.Rehearse()
		h := &Holder{World: w, Judge: NewJudge(w), Name: "a", Process: w.Start("a"), Leaser: &tt.r, Habits: Habits{Term: time.Minute}}
		h.Judge.recorded("n", tt.set)
		if tt.ended {
			h.Process.End()
		}
		h.chronicle(&believed{name: "n", token: 6, lost: tt.lost})
		wantFound(t, tt.name, w, tt.want)
		if got := h.Judge.record("n"); got != tt.knows || h.Judge.record("m") != 0 {
			t.Errorf("%s: the last record that is known is that of token %d, want %d", tt.name, got, tt.knows)
		}
	}
}

// When all is well each name is had, and again at once after its release, and can be given back.
func TestTheLastHolderIsJudged(t *testing.T) {
	leases := func(tokens ...uint64) (list []tenure.Lease) {
		for _, token := range tokens {
			list = append(list, &believed{name: "lease-0", token: token})
		}
		return list
	}
	stays := leases(1)
	stays[0].(*believed).fails = errors.New("odd")
	for _, tt := range []struct {
		name   string
		atOnce bool
		r      recorder
		want   string
	}{
		{"had, and at once", true, recorder{waits: leases(1), tries: leases(2)}, ""},
		{"had after waits", false, recorder{waits: leases(1, 2)}, ""},
		{"never had", true, recorder{tries: leases(1)}, "late: nobody holds lease-0, and it cannot be had: "},
		{"not had at once", true, recorder{waits: leases(1, 2)}, "release: its holder has released lease-0, and it cannot be had: "},
		{"not had again", false, recorder{waits: leases(1), tries: leases(2)}, "late: nobody holds lease-0, and it cannot be had: "},
		{"not given back", true, recorder{waits: stays, tries: leases(2)}, "release: lease-0 was held, and all is well: odd"},
		{"an older token", true, recorder{waits: leases(2), tries: leases(1)}, "tokens: a holds lease-0 with token 1"},
	} {
		w := world.Rehearse()
		h := &Holder{World: w, Judge: NewJudge(w), Name: "a", Process: w.Start("a"), Leaser: &tt.r, Habits: Habits{Names: 1, Term: time.Minute}}
		h.Last(time.Minute, tt.atOnce)
		wantFound(t, tt.name, w, tt.want)
	}
}

// A lease that is lost is lost too early if it was had when all was well.
func TestEarlyLossesAreJudged(t *testing.T) {
	for steady, want := range map[bool]string{false: "", true: "early loss: a loses n, token 1, and all is well"} {
		synctest.Test(t, func(t *testing.T) {
			lost := &believed{name: "n", token: 1, lost: true, done: make(chan struct{})}
			close(lost.done)
			w := world.Rehearse()
			r := &recorder{waits: []tenure.Lease{lost}, tries: []tenure.Lease{lost}}
			h := &Holder{
				World: w, Judge: NewJudge(w), Name: "a", Process: w.Start("a"), Leaser: r, Habits: Habits{Term: time.Minute},
				Steady: func() bool { return steady },
			}
			h.claim("worker", "n")
			wantFound(t, fmt.Sprint("when all is well: ", steady), w, want)
			if w.Counter("loses") != 1 || w.Counter("acquisitions") != 1 {
				t.Errorf("counted are %d tenures and %d losses, want one each", w.Counter("acquisitions"), w.Counter("loses"))
			}
		})
	}
}
