package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A change of a member that has just been started is tried again while that explains the refusal, and as long as
// was asked for. People are told once what is waited for, and again when it is another thing.
func TestAMemberThatHasJustStarted(t *testing.T) {
	unstarted := cluster{Members: []listedMember{{ID: "1", Name: "a"}, {ID: "2"}}}
	_, unknown := unstarted.find("c")
	behind := memberTrouble("promote c", rpctypes.ErrMemberLearnerNotReady)
	other := memberTrouble("promote c", rpctypes.ErrTooManyLearners)
	_, nobody := cluster{Members: unstarted.Members[:1]}.find("c")
	for what, tt := range map[string]struct {
		answers  []error // the last one for ever
		patience time.Duration
		took     time.Duration
		err      error
		says     string
	}{
		"it starts and catches up": {[]error{unknown, unknown, behind, nil}, time.Minute, 600 * time.Millisecond, nil,
			"tenure: waiting for c, which has not started yet\ntenure: waiting for c, which has not caught up yet\n"},
		"it never starts":       {[]error{unknown}, time.Second, time.Second, unknown, "tenure: waiting for c, which has not started yet\n"},
		"it is tried once":      {[]error{unknown}, 0, 0, unknown, ""},
		"it is another trouble": {[]error{other}, time.Minute, 0, other, ""},
		"nobody is to start":    {[]error{nobody}, time.Minute, 0, nobody, ""},
	} {
		bubble.Test(t, func(t *testing.T) {
			var words strings.Builder
			began, tries := time.Now(), 0
			err := insist(wait{limit: tt.patience, set: true}, &words, "c", func() error {
				tries++
				return tt.answers[min(tries, len(tt.answers))-1]
			})
			if !errors.Is(err, tt.err) || time.Since(began) != tt.took || words.String() != tt.says {
				t.Errorf("%s: after %v %v, and %q is said; want after %v %v, and %q", what, time.Since(began), err, &words, tt.took, tt.err, tt.says)
			}
		})
	}
	if err := insist(wait{}, nil, "c", func() error { return unknown }); !strings.Contains(fmt.Sprint(err), "start it with the command that `tenure member add` has printed") {
		t.Errorf("a member that was not started: %v", err)
	}
}

// A change that is not for members which have just been started is tried once.
func TestWhichChangesWait(t *testing.T) {
	said := wait{limit: time.Minute, set: true}
	for waits, want := range map[bool]wait{true: said, false: {set: true}} {
		if got := (memberChange{waits: waits}).patience(said); got != want {
			t.Errorf("a change that waits for members: %v, for a minute as was said, waits %+v, want %+v", waits, got, want)
		}
	}
}

// A learner that does not answer may just be starting: its promotion is tried again. Where another voter is missing, or it votes
// already, to wait is of no use.
func TestWhichPromotionsWait(t *testing.T) {
	up, down := listedMember{ID: "1", Name: "a", Reachable: true}, listedMember{ID: "2", Name: "b"}
	d, silent := listedMember{ID: "4", Name: "d", Learner: true, Reachable: true}, listedMember{ID: "4", Name: "d", Learner: true}
	for name, tt := range map[string]struct {
		members []listedMember
		m       listedMember
		yes     bool
		says    string // remark or error
		fails   bool
		waits   bool
	}{
		"it answers":                            {[]listedMember{up, up}, d, false, "", false, false},
		"it answers, and another is missing":    {[]listedMember{up, down}, d, false, "2 of 3 voters answer", false, false},
		"it answers, and too few others do":     {[]listedMember{up, down, down}, d, false, "after the promotion of d only 2 of 4", true, false},
		"it does not answer":                    {[]listedMember{up}, silent, false, "after the promotion of d only 1 of 2 voters would answer, and 2 are needed", true, true},
		"it does not answer, and that is meant": {[]listedMember{up}, silent, true, "1 of 2 voters answer", false, false},
		"it votes":                              {[]listedMember{up, down}, up, false, "a votes already", true, false},
	} {
		remark, err := cluster{Members: tt.members}.mayPromote(tt.m, tt.yes)
		if (err != nil) != tt.fails || errors.As(err, new(notYet)) != tt.waits || err != nil && !strings.HasPrefix(err.Error(), tt.says) || err == nil && !beginsOrBoth(remark, tt.says) {
			t.Errorf("%s: %q, %v; want %q, as an error: %v, which may be over soon: %v", name, remark, err, tt.says, tt.fails, tt.waits)
		}
	}
}
