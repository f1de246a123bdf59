package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// The span of a call in JSON is below that of its client.
func TestCallsInJSONAreTraced(t *testing.T) {
	recorded := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorded))
	servers, endpoints := startWith(t, 1, func(c *Config) { c.Tracing = tracing.Config{Provider: provider} })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+endpoints[0]+"/v3/kv/put", strings.NewReader(`{"key":"YQ=="}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("traceparent", "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	servers[0].Stop()
	var put string
	for _, s := range recorded.Ended() {
		if s.Name() == "etcdserverpb.KV/Put" {
			put = s.Parent().TraceID().String() + "-" + s.Parent().SpanID().String()
		}
	}
	if answer.StatusCode != http.StatusOK || put != "0102030405060708090a0b0c0d0e0f10-0102030405060708" {
		t.Errorf("status %d, and the call is below %q", answer.StatusCode, put)
	}
}

// The spans of a write and of a read are below that of their call, and have nothing of what is in it.
func TestCallsAreTraced(t *testing.T) {
	recorded := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorded))
	servers, endpoints := startWith(t, 1, func(c *Config) { c.Tracing = tracing.Config{Provider: provider} })
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "the-key", "the-secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "the-key"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "the-key", clientv3.WithSerializable()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	servers[0].Stop() // all calls have ended then
	byID, parts := map[string]string{}, []string{}
	for _, s := range recorded.Ended() {
		byID[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range recorded.Ended() {
		if s.Parent().IsValid() {
			parts = append(parts, s.Name()+" below "+byID[s.Parent().SpanID().String()])
		}
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s ends before it begins", s.Name())
		}
		for _, a := range s.Attributes() {
			if v := a.Value.String(); strings.Contains(v, "the-key") || strings.Contains(v, "the-secret") {
				t.Errorf("%s tells what is in the call: %s=%s", s.Name(), a.Key, v)
			}
		}
	}
	slices.Sort(parts)
	want := []string{"tenure.log.sync below tenure.propose", "tenure.propose below etcdserverpb.KV/Put", "tenure.read below etcdserverpb.KV/Range"}
	if !slices.Equal(parts, want) {
		t.Errorf("the parts of calls are %q, want %q", parts, want)
	}
}
