// Package span times the parts of calls that are traced. A call that is not traced costs a look at its context
// and allocates nothing. Spans carry no keys and no values: traces are read by others than those who may read
// the state.
package span

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Name is the instrumentation's, by which traces tell spans of this module from those of gRPC.
const Name = "github.com/tenure-lease/tenure"

// A Span is a part of a call.
type Span struct {
	ctx context.Context
	of  trace.Span
}

// On reports whether the call of a context is traced.
func On(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Begin begins a part of the call of a context, which has to be traced.
func Begin(ctx context.Context, name string) Span {
	ctx, of := trace.SpanFromContext(ctx).TracerProvider().Tracer(Name).Start(ctx, name)
	return Span{ctx, of}
}

// Set says something about the part.
func (s Span) Set(name string, value int) { s.of.SetAttributes(attribute.Int(name, value)) }

// Within adds a part of this one that is over.
func (s Span) Within(name string, from, to time.Time) {
	_, of := s.of.TracerProvider().Tracer(Name).Start(s.ctx, name, trace.WithTimestamp(from))
	of.End(trace.WithTimestamp(to))
}

// End ends the part. An error is its outcome.
func (s Span) End(err error) {
	if err != nil {
		s.of.SetStatus(codes.Error, err.Error())
	}
	s.of.End()
}
