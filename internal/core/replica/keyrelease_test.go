package replica

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// A follower learns from its leader's news which entries are released: all up to an index, and up to the
// horizon all that are not named as held. It goes no further than it knows the log to be committed,
// since the rest may be replaced. It looks again when it knows of more that is committed, or has other news.
func TestWhatIsLearntFromNews(t *testing.T) {
	type step struct {
		news    quorumlease.News
		commit  uint64
		through uint64
		apart   []uint64
	}
	news := func(term, released, horizon uint64, held ...uint64) quorumlease.News {
		return quorumlease.News{Term: term, Released: released, Horizon: horizon, Held: held}
	}
	keys := map[uint64]string{10: "a", 11: "b", 13: "c", 14: "b", 15: "d"} // that the entries put; 12 is a leader's first
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"nothing new", []step{{news(1, 9, 9), 15, 9, nil}}},
		{"a prefix", []step{{news(1, 11, 11), 15, 11, nil}}},
		{"a prefix beyond the commit", []step{{news(1, 13, 15), 11, 11, nil}, {news(1, 13, 13), 12, 12, nil}, {news(1, 13, 13), 15, 13, nil}}},
		{"a horizon beyond the commit", []step{{news(1, 9, 15, 10), 12, 9, []uint64{11, 12}}, {news(1, 9, 15, 10), 14, 9, []uint64{13, 14}}, {news(1, 9, 15, 10), 15, 9, []uint64{15}}}},
		{"a commit beyond the horizon", []step{{news(1, 9, 12, 10), 15, 9, []uint64{11, 12}}, {news(1, 9, 13, 10), 15, 9, []uint64{13}}}},
		{"an entry that is not held any more", []step{{news(1, 9, 15, 10, 15), 15, 9, []uint64{11, 12, 13, 14}}, {news(1, 9, 15, 15), 15, 14, nil}, {news(1, 9, 15), 15, 15, nil}}},
		{"a fence that is held", []step{{news(1, 9, 15, 12), 15, 11, []uint64{13, 14, 15}}, {news(1, 9, 15), 15, 15, nil}}},
		{"the news of another leader", []step{{news(1, 9, 13, 10), 13, 9, []uint64{11, 12, 13}}, {news(2, 9, 13, 11), 13, 13, nil}}},
		{"an entry that another depends on", []step{{news(1, 9, 15, 11, 14), 15, 10, []uint64{12, 13, 15}}, {news(1, 9, 15, 14), 15, 13, nil}}},
		{"all that was apart", []step{{news(1, 9, 15, 10), 15, 9, []uint64{11, 12, 13, 14, 15}}, {news(1, 15, 15), 15, 15, nil}}},
	} {
		k := &keyReader(9).reads.keys
		k.told = 9
		for i := uint64(10); i <= 15; i++ {
			if i == 12 {
				k.appended(&raftpb.Entry{Index: new(i), Term: new(uint64(1))})
			} else {
				k.appended(entryOfPuts(t, 1, i, keys[i]))
			}
		}
		for n, s := range tt.steps {
			k.news = s.news
			for _, again := range []bool{false, true} {
				before := k.through
				k.learn(s.commit)
				out, ok := k.report()
				if again && ok {
					t.Errorf("%s: step %d: what is released is learnt twice: %+v", tt.name, n, out)
				}
				if !again && (k.through != s.through || ok != (s.through > before || len(s.apart) > 0) || len(out.Apart)+len(s.apart) > 0 && !reflect.DeepEqual(out.Apart, s.apart)) {
					t.Errorf("%s: step %d: of a log committed up to %d and news %+v, all up to %d is released and %d apart, want %d and %d", tt.name, n, s.commit, s.news, k.through, out.Apart, s.through, s.apart)
				}
			}
		}
	}
}
