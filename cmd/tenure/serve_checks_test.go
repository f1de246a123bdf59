package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// The flags of checks mean what etcd's do.
func TestServeChecks(t *testing.T) {
	for _, tt := range []struct {
		args    string
		every   time.Duration
		initial bool
		loose   bool
		want    string // the error's text
	}{
		{args: ""},
		{args: "--corrupt-check-time 5m", every: 5 * time.Minute},
		{args: "--compact-hash-check-time 30s"},
		{args: "--feature-gates CompactHashCheck=true", every: time.Minute},
		{args: "--feature-gates CompactHashCheck=true,InitialCorruptCheck=true --compact-hash-check-time 30s", every: 30 * time.Second, initial: true},
		{args: "--experimental-compact-hash-check-enabled --corrupt-check-time 10s", every: 10 * time.Second},
		{args: "--experimental-compact-hash-check-enabled --corrupt-check-time 10m", every: time.Minute},
		{args: "--experimental-initial-corrupt-check=true", initial: true},
		{args: "--feature-gates AllAlpha=true,CompactHashCheck=false", initial: true},
		{args: "--feature-gates AllAlpha=false,FastLeaseKeepAlive=true,"},
		{args: "--strict-reconfig-check=false", loose: true},
		{args: "--feature-gates Odd=true", want: "Odd is no feature of etcd 3.7"},
		{args: "--feature-gates CompactHashCheck", want: "want NAME=true or NAME=false"},
		{args: "--feature-gates CompactHashCheck=maybe", want: "want NAME=true or NAME=false"},
		{args: "--corrupt-check-time -1s", want: "--corrupt-check-time -1s"},
		{args: "--compact-hash-check-time 0s", want: "--compact-hash-check-time 0s"},
	} {
		var o serveOptions
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.SetOutput(io.Discard)
		o.register(f)
		err := f.Parse(strings.Fields(tt.args + " --listen-peer-urls http://127.0.0.1:0 --listen-client-urls http://127.0.0.1:0 --initial-advertise-peer-urls http://127.0.0.1:1"))
		var cfg server.Config
		if err == nil {
			o.dataDir = t.TempDir()
			cfg, err = o.config(slog.New(slog.DiscardHandler), func(error) {})
			for _, l := range cfg.Clients {
				l.Close()
			}
			if cfg.Node.PeerListener != nil {
				cfg.Node.PeerListener.Close()
			}
		}
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got the error %v, want %q", tt.args, err, tt.want)
			}
			continue
		}
		if err != nil || cfg.Node.CorruptCheck != tt.every || cfg.InitialCheck != tt.initial || cfg.Node.LooseReconfig != tt.loose {
			t.Errorf("%s: compares every %v, at the start %v, loose %v, %v; want %v, %v and %v", tt.args, cfg.Node.CorruptCheck, cfg.InitialCheck, cfg.Node.LooseReconfig, err, tt.every, tt.initial, tt.loose)
		}
	}
}
