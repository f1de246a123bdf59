package server

import (
	"testing"
	"time"
)

func TestParseRetention(t *testing.T) {
	for _, tt := range []struct {
		mode, retention string
		want            Retention
		bad             bool
	}{
		{"", "", Retention{}, false},
		{"periodic", "0", Retention{}, false},
		{"revision", "0", Retention{}, false},
		{"periodic", "2", Retention{Period: 2 * time.Hour}, false},
		{"", "30m", Retention{Period: 30 * time.Minute}, false},
		{"revision", "1000", Retention{Revisions: 1000}, false},
		{"revision", "1h", Retention{}, true},
		{"periodic", "-1", Retention{}, true},
		{"periodic", "-5m", Retention{}, true},
		{"sometimes", "5m", Retention{}, true},
	} {
		got, err := ParseRetention(tt.mode, tt.retention)
		if (err != nil) != tt.bad || !tt.bad && got != tt.want {
			t.Errorf("ParseRetention(%q, %q) = %+v, %v; want %+v, bad %v", tt.mode, tt.retention, got, err, tt.want, tt.bad)
		}
	}
}

func TestCompactorTarget(t *testing.T) {
	now := time.Unix(0, 0)
	periodic := &compactor{keep: Retention{Period: time.Hour}}
	var got []int64
	for i := range 13 { // every ten minutes, 100 revisions each
		got = append(got, periodic.target(int64(100*i), now.Add(time.Duration(i)*10*time.Minute)))
	}
	for i, to := range got {
		if want := int64(max(0, 100*(i-6))); to != want {
			t.Errorf("after %d minutes it compacts to %d, want %d: what was present an hour ago", 10*i, to, want)
		}
	}
	revisions := &compactor{keep: Retention{Revisions: 1000}}
	if to := revisions.target(400, now); to != 0 {
		t.Errorf("with 400 revisions it compacts to %d, want none", to)
	}
	if to := revisions.target(1400, now); to != 400 {
		t.Errorf("with 1400 revisions it compacts to %d, want 400", to)
	}
}

// The compactor looks ten times in the period that it keeps, six minutes apart at most.
func TestCompactorLooksOftenEnough(t *testing.T) {
	for keep, want := range map[Retention]time.Duration{
		{Period: 24 * time.Hour}:   6 * time.Minute,
		{Period: time.Hour}:        6 * time.Minute,
		{Period: 10 * time.Minute}: time.Minute,
		{Period: time.Second}:      time.Second,
		{Revisions: 5}:             5 * time.Minute,
	} {
		if got := (&compactor{keep: keep}).interval(); got != want {
			t.Errorf("keeping %+v it looks every %v, want %v", keep, got, want)
		}
	}
}
