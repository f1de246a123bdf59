package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// An entry that takes as long as the bound is told, without what is in it, and one line a second; without a bound
// none is.
func TestSlowEntriesAreTold(t *testing.T) {
	for _, tt := range []struct {
		bound time.Duration
		lines int
	}{{0, 0}, {time.Hour, 0}, {1, 1}} {
		var log bytes.Buffer
		cfg := single(t, t.TempDir())
		cfg.WarnApply, cfg.Logger = tt.bound, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 20 {
			if _, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("the key"), Value: []byte("the secret")}); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(began)
		n.Stop()
		text := log.String()
		most := tt.lines * (1 + int(took/time.Second) + 1) // the name of the member was applied before
		if got := strings.Count(text, "an entry took long to apply"); got < tt.lines || got > most {
			t.Errorf("bound %v: %d lines of 20 entries in %v, want from %d to %d:\n%s", tt.bound, got, took, tt.lines, most, text)
		}
		if strings.Contains(text, "the key") || strings.Contains(text, "secret") {
			t.Errorf("the log has what is in the entry: %s", text)
		}
	}
}
