package server

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// reset opens so many streams on one connection, each with a request, and resets each at once, as fast as the server reads. It
// returns when the server has read all of it, or has ended the connection.
func reset(t *testing.T, endpoint, path, contentType string, body []byte, streams int) {
	c := silent(t, endpoint)
	defer c.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := http2.NewFramer(io.Discard, c); ; {
			if f, err := in.ReadFrame(); err != nil || f.Header().Type == http2.FramePing && f.Header().Flags.Has(http2.FlagPingAck) {
				return
			}
		}
	}()
	var out, head bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&head)
	framer.WriteSettings()
	for i := range streams {
		head.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}, {"content-type", contentType}, {"te", "trailers"}} {
			encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		id := uint32(2*i + 1)
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
		framer.WriteData(id, false, body)
		framer.WriteRSTStream(id, http2.ErrCodeCancel)
		if i == streams-1 {
			framer.WritePing(false, [8]byte{})
		}
		if out.Len() > 16<<10 || i == streams-1 {
			if _, err := c.Write(out.Bytes()); err != nil {
				return
			}
			out.Reset()
		}
	}
	<-read
}

// A client that resets its calls as soon as they begin (CVE-2023-44487) does not have many of them under way, leaves nothing behind,
// and keeps no other client from being served.
func TestResetCallsLeaveNothing(t *testing.T) {
	servers, endpoints := start(t, 1)
	client := dial(t, endpoints[0])
	put := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := client.Put(ctx, "k", "v"); err != nil {
			t.Errorf("another client's put: %v", err)
		}
	}
	memory := func() (heap uint64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const streams = 20_000
	put()
	before, heap := runtime.NumGoroutine(), memory()
	for _, tt := range []struct{ path, kind, body string }{
		{"/etcdserverpb.KV/Range", "application/grpc", "\x00\x00\x00\x00\x03\x0a\x01k"},
		{"/etcdserverpb.Watch/Watch", "application/grpc", "\x00\x00\x00\x00\x05\x0a\x03\x0a\x01k"},
		{"/etcdserverpb.Lease/LeaseKeepAlive", "application/grpc", "\x00\x00\x00\x00\x02\x08\x01"},
		{"/v3/watch", "application/json", `{"create_request":{"key":"aw=="}}`},
	} {
		flooded, most := make(chan struct{}), 0
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				select {
				case <-flooded:
					return
				case <-time.After(time.Millisecond):
					most = max(most, runtime.NumGoroutine()-before)
				}
			}
		})
		go func() {
			defer close(flooded)
			reset(t, endpoints[0], tt.path, tt.kind, []byte(tt.body), streams)
		}()
		for flooding := true; flooding; {
			select {
			case <-flooded:
				flooding = false
			default:
			}
			put()
		}
		watching.Wait()
		if most > streams*3/4 {
			t.Errorf("%s: of %d calls that were reset %d goroutines were at work at a time, want far fewer", tt.path, streams, most)
		}
		left := func() bool {
			return runtime.NumGoroutine() > before+50 || servers[0].Node.Watches().Stats().Watchers > 0
		}
		for end := time.Now().Add(20 * time.Second); left() && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if left() {
			t.Fatalf("%s: after %d calls were reset, %d goroutines more than before and %d watches are left", tt.path, streams, runtime.NumGoroutine()-before, servers[0].Node.Watches().Stats().Watchers)
		}
	}
	if now := memory(); now > heap+64<<20 {
		t.Errorf("after %d calls were reset on each of 4 connections, the heap has grown from %d to %d bytes", streams, heap, now)
	}
}
