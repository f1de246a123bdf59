// Package tracing sends traces of calls to a collector of OpenTelemetry, by OTLP over gRPC, as etcd does. A call is traced
// if its client says so, and of the others as many as the member was told to sample. Package span has the parts
// of calls.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// MaxPerMillion is the most that PerMillion may be: all calls.
const MaxPerMillion = 1_000_000

// Config says where traces go. Its zero value means that nothing is traced.
type Config struct {
	// Provider, if set, makes the spans, and no other field counts. It is the program's, which ends it.
	Provider trace.TracerProvider
	// Address is that of a collector, which is talked to without TLS.
	Address string
	// Service and Instance name the member in its traces. No instance is told if that is empty.
	Service, Instance string
	// PerMillion is how many of a million calls are traced whose clients say nothing about it.
	PerMillion int
}

// Traces are a member's. Nil traces nothing.
type Traces struct {
	provider trace.TracerProvider
	own      *sdk.TracerProvider         // nil: the program's
	cut      func(context.Context) error // ends what own is sending
}

// Open prepares to send traces. It waits for no collector: while there is none, traces are lost.
func Open(c Config, logger *slog.Logger) (*Traces, error) {
	if c.Provider != nil {
		return &Traces{provider: c.Provider}, nil
	}
	if c.Address == "" {
		return nil, nil
	}
	if c.PerMillion < 0 || c.PerMillion > MaxPerMillion {
		return nil, fmt.Errorf("tracing: %d calls of a million are to be traced: want 0 to %d", c.PerMillion, MaxPerMillion)
	}
	exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(c.Address))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	of := resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(c.Service))
	if c.Instance != "" {
		of = resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(c.Service), semconv.ServiceInstanceID(c.Instance))
	}
	chosen := sdk.TraceIDRatioBased(float64(c.PerMillion) / MaxPerMillion)
	own := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(of), sdk.WithSampler(sdk.ParentBased(chosen)))
	otel.SetErrorHandler(&complaints{logger: logger}) // OpenTelemetry has one for the process
	return &Traces{own, own, exporter.Shutdown}, nil
}

// Options have the calls of a gRPC server traced.
func (t *Traces) Options() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
	))}
}

// closePatience is how long a collector may take with the last traces.
const closePatience = time.Second

// Close sends the traces that are left. Those that the collector does not take in a second are lost.
func (t *Traces) Close() {
	if t == nil || t.own == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := t.own.Shutdown(ctx); err != nil {
		otel.Handle(err)
		t.cut(ctx) // which would go on for long
	}
}

// complaints has the troubles of the exporter logged, one a minute: a collector may be away for days.
type complaints struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   time.Time
}

// Handle logs a trouble.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= time.Minute {
		c.last = now
		c.logger.Warn("traces are lost", "err", err)
	}
}
