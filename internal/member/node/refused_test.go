package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// How other members answer, by number on the wire.
var answers = map[string]byte{
	"version": 2, "cluster": 3, "unknown": 4, "address": 5, "duplicate": 6, "removed": 9, "unconfirmed": 10,
}

// A member's reaction to others that refuse it. Each line states, for a number of election timeouts,
// the state of each other member. "up" is connected. "down" is disconnected for another reason than a
// refusal.
func TestWhatAMemberMakesOfRefusals(t *testing.T) {
	reasons := map[string]error{"down": errors.New("nobody answers")}
	for name, status := range answers {
		reasons[name] = refusalOf(t, status)
	}
	type line struct {
		timeouts int
		others   string // of members 2, 3, …
	}
	for _, tt := range []struct {
		name     string
		learners []uint64
		leader   machine.NodeID
		play     []line
		ends     string // why it ends, and what is to be done
		at       int    // after so many election timeouts
		hands    string // to whom leadership is handed over, and when
	}{
		{"alone", nil, 0, []line{{20, ""}}, "", 0, ""},
		{"refused by all from the start", nil, 0, []line{{20, "unknown unknown"}}, "give all members the same --initial-cluster and --initial-cluster-token", 10, ""},
		{"refused by all, for different reasons", nil, 0, []line{{20, "cluster version"}}, "run the same version on all members", 10, ""},
		{"refused by all but one that is down", nil, 0, []line{{30, "unknown down"}}, "", 0, ""},
		{"refused by all when it had been let in", nil, 0, []line{{1, "up down"}, {30, "unknown unknown"}}, "", 0, ""},
		{"refused by all when it had been let in by the other", nil, 0, []line{{1, "down up"}, {30, "unknown unknown"}}, "", 0, ""},
		{"refused by all when one of whom it has heard had let it in", nil, 0, []line{{30, "unknown unknown heard"}}, "", 0, ""},
		{"refused for a moment, and later again", nil, 0, []line{{9, "unknown unknown"}, {1, "down down"}, {9, "unknown unknown"}, {5, "down down"}}, "", 0, ""},
		{"refused again, for good", nil, 0, []line{{9, "unknown unknown"}, {1, "down unknown"}, {20, "unknown unknown"}}, "give all members", 20, ""},
		{"not confirmed by any from the start", nil, 0, []line{{30, "unconfirmed unconfirmed"}}, "", 0, ""},
		{"another process runs, as all say", nil, 0, []line{{1, "up up"}, {20, "duplicate duplicate"}}, "stop the other process", 11, ""},
		{"another process runs, as one of two says", nil, 0, []line{{1, "up up"}, {30, "duplicate down"}}, "", 0, ""},
		{"another process runs, as two of three say", nil, 0, []line{{20, "duplicate duplicate up"}}, "stop the other process", 10, ""},
		{"another process runs, as two of four say", nil, 0, []line{{20, "duplicate duplicate up up"}}, "", 0, ""},
		{"removed, as one of two says", nil, 0, []line{{9, "removed up"}}, "", 0, ""},
		{"removed, as all say", nil, 0, []line{{1, "up up"}, {5, "removed removed"}}, "permanently removed", 1, ""},
		{"removed, as two of three say", nil, 0, []line{{5, "removed removed up"}}, "permanently removed", 0, ""},
		{"removed, as two of four say", nil, 0, []line{{9, "removed removed up up"}}, "", 0, ""},
		{"removed, as the only other voter says", []uint64{3, 4}, 0, []line{{5, "removed up up"}}, "permanently removed", 0, ""},
		{"removed, as learners say", []uint64{3, 4}, 0, []line{{9, "up removed removed"}}, "", 0, ""},
		{"removed, as two of three voters say", []uint64{5, 6}, 0, []line{{5, "removed removed up up up"}}, "permanently removed", 0, ""},
		{"it leads, and one does not find it", nil, 1, []line{{1, "up up"}, {12, "up unconfirmed"}}, "", 0, "2 after 3, 2 after 11"},
		{"it leads, and one finds it again, and loses it", nil, 1, []line{{4, "up unconfirmed"}, {1, "up up"}, {4, "up unconfirmed"}}, "", 0, "2 after 2, 2 after 7"},
		{"it leads, and one that does not find it is away for a while", nil, 1, []line{{1, "up unconfirmed"}, {3, "up down"}, {3, "up unconfirmed"}}, "", 0, "2 after 6"},
		{"it leads, and only a learner hears it", []uint64{2}, 1, []line{{12, "up unconfirmed"}}, "", 0, ""},
		{"another leads", nil, 2, []line{{12, "up unconfirmed"}}, "", 0, ""},
		{"it leads, and is refused otherwise", nil, 1, []line{{12, "up unknown"}}, "", 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, links := linked(t)
			defer n.end()
			var failed error
			fails := 0
			n.cfg.Fail = func(err error) { failed = err; fails++ }
			n.leadership.Store(&leadership{leader: tt.leader})
			var members []*pb.Member
			known := len(strings.Fields(strings.TrimSuffix(tt.play[0].others, "heard")))
			for id := uint64(1); int(id) <= 1+known; id++ {
				m := &pb.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://m:%d", id)}}
				for _, learner := range tt.learners {
					m.IsLearner = m.IsLearner || id == learner
				}
				members = append(members, m)
			}
			n.is(replica.FoundedBy(members))
			n.contacts.heard = map[machine.NodeID]string{machine.NodeID(known + 2): "heard:1"} // "heard"
			var hands []string
			began, ends, timeouts := time.Now(), -1, 0
			for _, line := range tt.play {
				for range line.timeouts {
					for i, how := range strings.Fields(line.others) {
						links.stats[machine.NodeID(i+2)] = peer.Stats{Connected: how == "up" || how == "heard", LastError: reasons[how]}
					}
					n.refusals.look(n, began.Add(time.Duration(timeouts)*n.cfg.ElectionTimeout))
					time.Sleep(n.cfg.HeartbeatInterval) // a member that was removed ends when that was told
					synctest.Wait()
					for _, in := range l.heard()[len(hands):] {
						hands = append(hands, fmt.Sprintf("%d after %d", in.(replica.HandOver).To, timeouts))
					}
					if failed != nil && ends < 0 {
						ends = timeouts
					}
					timeouts++
				}
			}
			switch {
			case tt.ends == "" && failed != nil:
				t.Errorf("%s: it ends with %v", tt.name, failed)
			case tt.ends != "" && failed == nil:
				t.Errorf("%s: it goes on", tt.name)
			case tt.ends != "" && !strings.Contains(failed.Error(), tt.ends):
				t.Errorf("%s: it ends with %v, want it to say %q", tt.name, failed, tt.ends)
			case tt.ends != "" && (ends != tt.at || fails != 1):
				t.Errorf("%s: it ends %d times, at first after %d election timeouts; want once, after %d", tt.name, fails, ends, tt.at)
			}
			if noted := errors.Is(checkRemoved(n.cfg.DataDir, n.cfg.WAL.FS), ErrRemoved); noted != errors.Is(failed, ErrRemoved) {
				t.Errorf("%s: its directory says that it was removed: %v, and it ends with %v", tt.name, noted, failed)
			}
			if got := strings.Join(hands, ", "); got != tt.hands {
				t.Errorf("%s: leadership is handed over to %q, want %q", tt.name, got, tt.hands)
			}
		})
	}
}

// Each pause before leadership is handed over again is four times as long as the one before. After
// some tries it stays the same.
func TestLeadershipIsHandedOverEverMoreSeldom(t *testing.T) {
	var d deafness
	since := time.Unix(1000, 0)
	now, gap := since.Add(2*time.Second), 8*time.Second
	for tries := range 40 {
		if d.due(since, now.Add(-1), time.Second) {
			t.Fatalf("after %d times leadership is handed over too soon", tries)
		}
		if !d.due(since, now, time.Second) {
			t.Fatalf("after %d times leadership is not handed over %v later", tries, gap)
		}
		now = now.Add(gap)
		gap = min(4*gap, 2*time.Second<<16)
	}
}
