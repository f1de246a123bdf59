package replica

import "go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

// promotions counts the learners that asked this member, as the leader, for a vote.
type promotions struct {
	done    uint64
	refused [pastVerdicts - refusals]uint64 // by the reason
}

// made counts the learners of one roster that have a vote in the next.
func (p *promotions) made(before, after Roster) {
	for _, m := range after.Members {
		if was := before.Find(m.ID); was != nil && was.IsLearner && !m.IsLearner {
			p.done++
		}
	}
}

// reasons returns how many were refused, by etcd's words for the reason; nil if none was.
func (p *promotions) reasons() map[string]uint64 {
	var all map[string]uint64
	for i, n := range p.refused {
		if n == 0 {
			continue
		}
		if all == nil {
			all = map[string]uint64{}
		}
		all[rpctypes.ErrorDesc(whyNot[i])] = n
	}
	return all
}
