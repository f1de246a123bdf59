package replica

import "go.etcd.io/raft/v3/raftpb"

// HeartbeatTerm returns the term of a leader's heartbeat to a follower, 0 if a body is none.
func HeartbeatTerm(body any) uint64 {
	if a, ok := body.(announced); ok {
		body = a.Message
	}
	if m, ok := body.(*raftpb.Message); ok && m.GetType() == raftpb.MsgHeartbeat {
		return m.GetTerm()
	}
	return 0
}
