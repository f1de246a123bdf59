package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenure-lease/tenure/internal/host/peer"
)

// A peerFigure is one number of the connections to another member.
type peerFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(peer.Stats) float64
	both  bool // it is labelled with this member, too
}

// between is a figure that both members label.
func between(kind prometheus.ValueType, name, help string, value func(peer.Stats) float64) peerFigure {
	return peerFigure{desc: prometheus.NewDesc(name, help, []string{"Local", "Remote"}, nil), kind: kind, value: value, both: true}
}

func to(kind prometheus.ValueType, name, help string, value func(peer.Stats) float64) peerFigure {
	return peerFigure{desc: prometheus.NewDesc(name, help, []string{"To"}, nil), kind: kind, value: value}
}

func from(kind prometheus.ValueType, name, help string, value func(peer.Stats) float64) peerFigure {
	return peerFigure{desc: prometheus.NewDesc(name, help, []string{"From"}, nil), kind: kind, value: value}
}

// peerFigures are told of each other member. The streams between members carry snapshots only.
var peerFigures = []peerFigure{
	between(gauge, "etcd_network_active_peers", "1 if messages to a member can be sent.", func(st peer.Stats) float64 { return yes(st.Connected) }),
	between(counter, "etcd_network_disconnected_peers_total", "Ends of the connection to a member.", func(st peer.Stats) float64 { return float64(st.Disconnects) }),
	to(counter, "etcd_network_peer_sent_bytes_total", "Bytes that were sent to a member.", func(st peer.Stats) float64 { return float64(st.BytesSent + st.StreamBytesSent) }),
	from(counter, "etcd_network_peer_received_bytes_total", "Bytes that were received from a member.", func(st peer.Stats) float64 { return float64(st.BytesReceived + st.StreamBytesReceived) }),
	to(counter, "etcd_network_peer_sent_failures_total", "Messages to a member that were dropped.", func(st peer.Stats) float64 { return float64(st.MessagesDropped) }),
	to(counter, "etcd_network_snapshot_send_success", "Snapshots that a member has taken.", func(st peer.Stats) float64 { return float64(st.StreamsSent) }),
	to(counter, "etcd_network_snapshot_send_failures", "Snapshots that did not reach a member, or that it refused.", func(st peer.Stats) float64 { return float64(st.StreamsUnsent) }),
	to(gauge, "etcd_network_snapshot_send_inflights_total", "Snapshots on their way to a member.", func(st peer.Stats) float64 { return float64(st.StreamsSending) }),
	from(counter, "etcd_network_snapshot_receive_success", "Snapshots that a member sent whole.", func(st peer.Stats) float64 { return float64(st.StreamsReceived) }),
	from(counter, "etcd_network_snapshot_receive_failures", "Snapshots of a member that did not arrive whole, or were refused.", func(st peer.Stats) float64 { return float64(st.StreamsUnreceived) }),
	from(gauge, "etcd_network_snapshot_receive_inflights_total", "Snapshots on their way from a member.", func(st peer.Stats) float64 { return float64(st.StreamsReceiving) }),
}

// Figures that have other labels, or buckets.
var (
	peerKnown  = prometheus.NewDesc("etcd_network_known_peers", "1 for each member of the cluster, this one included.", []string{"Local", "Remote"}, nil)
	requests   = prometheus.NewDesc("etcd_server_client_requests_total", "Calls of clients, by the version of the API that they name.", []string{"type", "client_api_version"}, nil)
	alarms     = prometheus.NewDesc("etcd_debugging_server_alarms", "1 for each alarm that is on.", []string{"server_id", "alarm_type"}, nil)
	unpromoted = prometheus.NewDesc("etcd_server_learner_promote_failures", "Learners that this member, as the leader, refused a vote, by the reason.", []string{"Reason"}, nil)
	ttls       = prometheus.NewDesc("etcd_debugging_lease_ttl_total", "Seconds for which leases were granted.", nil, nil)
)
