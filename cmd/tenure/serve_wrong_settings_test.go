package main

import (
	"path/filepath"
	"testing"
)

// A setting with which no start can succeed is wrong usage: a unit of systemd does not try again. It is the same
// if the member, and not its command, notices.
func TestServeWithAWrongSetting(t *testing.T) {
	for says, args := range map[string][]string{
		"is too short for heartbeats every 100ms":   {"--election-timeout", "400"},
		"is not among the initial cluster's":        {"--initial-cluster", "b=http://127.0.0.1:1"},
		"--auth-token \"odd\": want simple, or jwt": {"--auth-token", "odd"},
		"a cost of 100: want":                       {"--bcrypt-cost", "100"},
		"no such file or directory":                 {"--auth-token", "jwt,sign-method=ES256,priv-key=" + filepath.Join(t.TempDir(), "none")},
	} {
		_, err := command(t, append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "d"), "--listen-client-urls", "http://127.0.0.1:0", "--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "panic"}, args...)...)
		wantRefused(t, err, says)
	}
}
