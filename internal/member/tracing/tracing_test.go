package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collected is a collector, which keeps what it is sent.
type collected struct {
	collector.UnimplementedTraceServiceServer
	mu  sync.Mutex
	all []*tracepb.ResourceSpans
}

func (c *collected) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, r.ResourceSpans...)
	return &collector.ExportTraceServiceResponse{}, nil
}

// spans returns the traces and the names of what came, and the attributes of where it came from.
func (c *collected) spans() (names []string, traces [][]byte, of map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of = map[string]string{}
	for _, r := range c.all {
		for _, a := range r.Resource.Attributes {
			of[a.Key] = a.Value.GetStringValue()
		}
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				names, traces = append(names, span.Name), append(traces, span.TraceId)
			}
		}
	}
	return names, traces, of
}

func serving(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	register(g)
	done := make(chan error)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return l.Addr().String()
}

// A call is traced if its client traces it, or if it is one of those that are chosen. The collector has it when the
// traces are closed.
func TestTracesAreSent(t *testing.T) {
	const sampled, unsampled = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01", "00-0202030405060708090a0b0c0d0e0f10-0102030405060708-00"
	for _, tt := range []struct {
		name       string
		perMillion int
		parent     string
		want       int
	}{
		{"none is chosen", 0, "", 0},
		{"all are", MaxPerMillion, "", 1},
		{"the client traces it", 0, sampled, 1},
		{"the client does not", MaxPerMillion, unsampled, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := new(collected)
			address := serving(t, func(g *grpc.Server) { collector.RegisterTraceServiceServer(g, c) })
			traces, err := Open(Config{Address: address, Service: "the service", Instance: "the member", PerMillion: tt.perMillion}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			at := serving(t, func(g *grpc.Server) { grpc_health_v1.RegisterHealthServer(g, health.NewServer()) }, traces.Options()...)
			conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := t.Context()
			if tt.parent != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", tt.parent)
			}
			if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			for deadline := time.Now().Add(10 * time.Second); ; { // the span ends behind the answer
				traces.own.ForceFlush(t.Context())
				if names, _, _ := c.spans(); len(names) >= tt.want || time.Now().After(deadline) {
					break
				}
			}
			traces.Close()
			names, ids, of := c.spans()
			if len(names) != tt.want || tt.want > 0 && names[0] != "grpc.health.v1.Health/Check" {
				t.Fatalf("the collector has the spans %q, want %d of the check", names, tt.want)
			}
			if tt.want > 0 && (of["service.name"] != "the service" || of["service.instance.id"] != "the member") {
				t.Errorf("they are of %v, want the service and the member", of)
			}
			if tt.parent == sampled && !slices.Equal(ids[0], []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
				t.Errorf("the call of a trace is in the trace %x", ids[0])
			}
		})
	}
}

// Without an address nothing is traced, and with a program's provider that is used, and lives on.
func TestNothingIsTracedUnasked(t *testing.T) {
	traces, err := Open(Config{Service: "etcd", PerMillion: -1}, nil)
	if err != nil || traces != nil || len(traces.Options()) > 0 {
		t.Errorf("traces of nobody: %v, %v with %d options, want none", traces, err, len(traces.Options()))
	}
	traces.Close()
	for _, rate := range []int{-1, MaxPerMillion + 1} {
		if _, err := Open(Config{Address: "127.0.0.1:1", PerMillion: rate}, nil); err == nil {
			t.Errorf("%d calls of a million are traced, want an error", rate)
		}
	}
	recorded := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorded))
	if traces, err = Open(Config{Provider: provider, Address: "127.0.0.1:1", PerMillion: -1}, nil); err != nil || len(traces.Options()) != 1 {
		t.Fatalf("traces of a program: %v, %d options, want one", err, len(traces.Options()))
	}
	traces.Close()
	_, span := provider.Tracer("x").Start(t.Context(), "later")
	if span.End(); len(recorded.Ended()) != 1 {
		t.Error("the provider of a program ended with its member")
	}
}

// Troubles with the collector are logged once a minute.
func TestTroublesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &complaints{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for i := range 180 {
			c.Handle(errors.New("nobody there"))
			time.Sleep(time.Second)
			if got, want := strings.Count(log.String(), "traces are lost"), 1+i/60; got != want {
				t.Fatalf("after %d s there are %d lines, want %d", i, got, want)
			}
		}
	})
}

// Without a collector the traces end in time, and nothing of them goes on: whoever closes them may end what they are of.
func TestTracesEndWithoutACollector(t *testing.T) {
	running := goleak.IgnoreCurrent()
	traces, err := Open(Config{Address: "127.0.0.1:1", Service: "s", PerMillion: MaxPerMillion}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, call := traces.own.Tracer("x").Start(t.Context(), "call")
	call.End()
	traces.Close()
	if err := goleak.Find(running); err != nil {
		t.Errorf("something of the traces goes on: %.300v", err)
	}
}
