package metrics

import (
	"context"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls counts gRPC calls by method and outcome, as etcd does.
type calls struct {
	started, handled, received, sent *prometheus.CounterVec
	seconds                          *prometheus.HistogramVec // nil: not measured
	failures                         *prometheus.CounterVec   // of streams
	byMethod                         map[string]*method       // is only read once calls come
}

// A method has the counters of one method, so that a call looks none up.
type method struct {
	started, received, sent prometheus.Counter
	handled                 [codes.Unauthenticated + 1]prometheus.Counter
	seconds                 prometheus.Observer
	unsent, unreceived      prometheus.Counter // nil: failures do not count
}

// failing are the methods whose streams etcd counts the failures of, and its names for them.
var failing = map[string]string{"/etcdserverpb.Watch/Watch": "watch", "/etcdserverpb.Lease/LeaseKeepAlive": "lease-keepalive"}

func newCalls(extensive bool) *calls {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	c := &calls{
		started:  counter("grpc_server_started_total", "Calls that were begun.", labels...),
		handled:  counter("grpc_server_handled_total", "Calls that have ended, by their code.", append(labels, "grpc_code")...),
		received: counter("grpc_server_msg_received_total", "Messages that clients sent.", labels...),
		sent:     counter("grpc_server_msg_sent_total", "Messages that clients were sent.", labels...),
	}
	c.failures = counter("etcd_network_server_stream_failures_total", "Messages of streams that failed, but for those of clients that left.", "Type", "API")
	for _, api := range failing {
		for _, way := range []string{"send", "receive"} {
			c.failures.WithLabelValues(way, api)
		}
	}
	if extensive {
		c.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Help: "Seconds from the begin of a call to its end.", Buckets: prometheus.DefBuckets,
		}, labels)
	}
	return c
}

func (c *calls) collectors() []prometheus.Collector {
	all := []prometheus.Collector{c.started, c.handled, c.received, c.sent, c.failures}
	if c.seconds != nil {
		all = append(all, c.seconds)
	}
	return all
}

// prepare makes the counters of all methods of some services, each 0.
func (c *calls) prepare(services map[string]grpc.ServiceInfo) {
	c.byMethod = map[string]*method{}
	for service, info := range services {
		for _, m := range info.Methods {
			labels := []string{kind(m), service, m.Name}
			made := &method{
				started:  c.started.WithLabelValues(labels...),
				received: c.received.WithLabelValues(labels...),
				sent:     c.sent.WithLabelValues(labels...),
			}
			for code := range made.handled {
				made.handled[code] = c.handled.WithLabelValues(append(labels, codes.Code(code).String())...)
			}
			if c.seconds != nil {
				made.seconds = c.seconds.WithLabelValues(labels...)
			}
			name := "/" + service + "/" + m.Name
			if api := failing[name]; api != "" {
				made.unsent, made.unreceived = c.failures.WithLabelValues("send", api), c.failures.WithLabelValues("receive", api)
			}
			c.byMethod[name] = made
		}
	}
}

func kind(m grpc.MethodInfo) string {
	switch {
	case m.IsClientStream && m.IsServerStream:
		return "bidi_stream"
	case m.IsClientStream:
		return "client_stream"
	case m.IsServerStream:
		return "server_stream"
	}
	return "unary"
}

func (m *method) begin() (begun time.Time) {
	m.started.Inc()
	if m.seconds != nil {
		begun = time.Now()
	}
	return begun
}

func (m *method) end(begun time.Time, err error) {
	if code := status.Code(err); int(code) < len(m.handled) {
		m.handled[code].Inc()
	} else {
		m.handled[codes.Unknown].Inc()
	}
	if m.seconds != nil {
		m.seconds.Observe(time.Since(begun).Seconds())
	}
}

func (c *calls) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	m := c.byMethod[info.FullMethod]
	if m == nil {
		return handle(ctx, req)
	}
	begun := m.begin()
	m.received.Inc()
	resp, err := handle(ctx, req)
	if err == nil {
		m.sent.Inc()
	}
	m.end(begun, err)
	return resp, err
}

func (c *calls) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	m := c.byMethod[info.FullMethod]
	if m == nil {
		return handle(srv, ss)
	}
	begun := m.begin()
	err := handle(srv, &countedStream{ss, m})
	m.end(begun, err)
	return err
}

// countedStream counts the messages of a stream.
type countedStream struct {
	grpc.ServerStream
	method *method
}

func (s *countedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.method.sent.Inc()
	}
	s.fail(s.method.unsent, err)
	return err
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.method.received.Inc()
	}
	s.fail(s.method.unreceived, err)
	return err
}

// fail counts an error, unless the client has left or has said all that it has to.
func (s *countedStream) fail(counter prometheus.Counter, err error) {
	if counter == nil || err == nil || err == io.EOF || s.Context().Err() != nil {
		return
	}
	if code := status.Code(err); code != codes.Canceled && code != codes.DeadlineExceeded {
		counter.Inc()
	}
}
