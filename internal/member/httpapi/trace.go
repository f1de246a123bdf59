package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
)

// traceHeaders are those by which a client's trace goes on: W3C's Trace Context and Baggage.
var traceHeaders = []string{"traceparent", "tracestate", "baggage"}

// traced passes the trace of a request on to the call that is made of it, so that the call's span is below the client's. A header that
// the call could not carry is left out: no trace makes a call fail.
func traced(_ context.Context, r *http.Request) metadata.MD {
	var md metadata.MD
	for _, name := range traceHeaders {
		value := strings.Join(r.Header.Values(name), ",")
		if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			continue
		}
		md = metadata.Join(md, metadata.Pairs(name, value))
	}
	return md
}

// keepTrace copies the trace of a request for a websocket to that of its call.
func keepTrace(call, r http.Header) {
	for _, name := range traceHeaders {
		if values := r.Values(name); len(values) > 0 {
			call[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
}
