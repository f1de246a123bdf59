package span

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Parts of a call that is traced are spans below the call's, with their times and outcomes.
func TestPartsOfACall(t *testing.T) {
	recorded := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorded))
	ctx, call := provider.Tracer("test").Start(t.Context(), "call")
	if !On(ctx) {
		t.Fatal("a call that is traced is not")
	}
	part, begin := Begin(ctx, "part"), time.Unix(100, 0)
	part.Set("bytes", 7)
	part.Within("sync", begin, begin.Add(time.Second))
	part.End(errors.New("odd"))
	Begin(ctx, "good").End(nil)
	call.End()
	all := recorded.Ended()
	if len(all) != 4 {
		t.Fatalf("%d spans ended, want 4", len(all))
	}
	sync, whole, good, parent := all[0], all[1], all[2], all[3]
	if sync.Name() != "sync" || sync.Parent().SpanID() != whole.SpanContext().SpanID() || sync.StartTime() != begin || sync.EndTime() != begin.Add(time.Second) {
		t.Errorf("a part that is over is %s of %v to %v, below %v, want sync of %v below %v", sync.Name(), sync.StartTime(), sync.EndTime(), sync.Parent().SpanID(), begin, whole.SpanContext().SpanID())
	}
	if whole.Name() != "part" || whole.Parent().SpanID() != parent.SpanContext().SpanID() || whole.InstrumentationScope().Name != Name {
		t.Errorf("a part is %s of %s, below %v, want part of %s below %v", whole.Name(), whole.InstrumentationScope().Name, whole.Parent().SpanID(), Name, parent.SpanContext().SpanID())
	}
	if st, a := whole.Status(), whole.Attributes(); st.Code != codes.Error || st.Description != "odd" || len(a) != 1 || a[0].Value.AsInt64() != 7 {
		t.Errorf("a part that fails has the outcome %v and the attributes %v", st, a)
	}
	if st := good.Status(); st.Code != codes.Unset {
		t.Errorf("a part that succeeds has the outcome %v", st)
	}
}

// A call that is not traced has no parts, and the look costs no memory.
func TestNoTrace(t *testing.T) {
	never := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	unsampled, _ := never.Tracer("test").Start(t.Context(), "call")
	for name, ctx := range map[string]context.Context{"without a trace": t.Context(), "that is not sampled": unsampled} {
		if On(ctx) {
			t.Errorf("a call %s is traced", name)
		}
		if n := testing.AllocsPerRun(100, func() { On(ctx) }); n > 0 {
			t.Errorf("a call %s allocates %v times for its trace", name, n)
		}
	}
}

func BenchmarkNoTrace(b *testing.B) {
	type key int
	ctx := b.Context()
	for i := range 6 { // as a call of gRPC has them
		ctx = context.WithValue(ctx, key(i), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if On(ctx) {
			b.Fatal("it is traced")
		}
	}
}
