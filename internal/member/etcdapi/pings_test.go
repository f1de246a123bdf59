package etcdapi

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A client that has gone without a word is pinged when it was idle for the configured time, or for
// two hours, as by etcd. Its connection ends when it does not answer in time.
func TestClientsThatHaveGoneArePutOut(t *testing.T) {
	for name, tt := range map[string]struct {
		c    Config
		want time.Duration
	}{
		"by default":  {Config{}, 2*time.Hour + 20*time.Second},
		"as was said": {Config{KeepAliveInterval: time.Minute, KeepAliveTimeout: 3 * time.Second}, time.Minute + 3*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, watch.Config{})
				api, listen := New(f, tt.c), bufconn.Listen(1<<20)
				g := grpc.NewServer(api.Options()...)
				api.Register(g)
				go g.Serve(listen)
				defer f.hub.Close()
				defer g.Stop()
				conn, err := listen.DialContext(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				const settings = 4
				hello := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
				hello = binary.BigEndian.AppendUint32(append(hello, 0, 0, 0, settings, 0), 0)
				if _, err := conn.Write(hello); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				io.Copy(io.Discard, conn)
				if took := time.Since(begun).Round(time.Second); took != tt.want {
					t.Errorf("a client that has gone is put out after %v, want %v", took, tt.want)
				}
			})
		})
	}
}
