package etcdapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A call that takes as long as the bound is told with its method, its time and its size, and without what is in it.
// One that waits for another client is not, and there is one line a second.
func TestSlowCallsAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, nil))
		call := func(s *Server, method string, takes time.Duration, err error) string {
			log.Reset()
			req := &pb.PutRequest{Key: []byte("the key"), Value: []byte("the secret")}
			_, _ = s.unary(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
				time.Sleep(takes)
				return nil, err
			})
			return log.String()
		}
		const put = "/etcdserverpb.KV/Put"
		s := New(newFake(t, watch.Config{}), Config{WarnCall: 300 * time.Millisecond, Logger: logger})
		if line := call(s, put, 299*time.Millisecond, nil); line != "" {
			t.Errorf("a call of 299 ms is told, and the bound is 300: %s", line)
		}
		line := call(s, put, 300*time.Millisecond, nil)
		for _, want := range []string{`"method":"/etcdserverpb.KV/Put"`, `"took":300000000`, `"request bytes":21`, `"code":"OK"`, `"slow since the last line":1`} {
			if !strings.Contains(line, want) {
				t.Errorf("a call of 300 ms is told as %q, want %s in it", line, want)
			}
		}
		var has map[string]any
		if err := json.Unmarshal([]byte(line), &has); err != nil || len(has) != 9 {
			t.Errorf("the log has what is in the request, or less than it should: %s", line)
		}
		if line := call(s, put, 400*time.Millisecond, errors.New("no")); line != "" {
			t.Errorf("another line within a second: %s", line)
		}
		if line := call(s, put, time.Second, errors.New("no")); !strings.Contains(line, `"slow since the last line":2`) || !strings.Contains(line, `"code":"Unknown"`) {
			t.Errorf("the next line is %q, want it to count two calls, and the error's code", line)
		}
		for _, method := range []string{"/v3lockpb.Lock/Lock", "/v3electionpb.Election/Campaign"} {
			time.Sleep(time.Second)
			if line := call(s, method, time.Minute, nil); line != "" {
				t.Errorf("%s waits for another client, and is told as slow: %s", method, line)
			}
		}
		s = New(newFake(t, watch.Config{}), Config{Logger: logger})
		if line := call(s, put, time.Hour, nil); line != "" {
			t.Errorf("without a bound a call is told as slow: %s", line)
		}
	})
}
