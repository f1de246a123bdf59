package server

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If all members have ended by themselves, nobody waits for a leader: the answer is what they said last.
// A member that was ended may be started again.
func TestLeaderOfMembersThatEnded(t *testing.T) {
	member := func(name, script string) *Member {
		m := &Member{Name: name, Endpoint: "127.0.0.1:1", Log: filepath.Join(t.TempDir(), "log"), binary: "/bin/sh", args: []string{"-c", script}}
		if err := m.Launch(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Kill)
		return m
	}
	one, two := member("one", "echo my disk is full"), member("two", "echo so is mine")
	c := &Cluster{Members: []*Member{one, two}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Leader(ctx)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "my disk is full") || !strings.Contains(err.Error(), "so is mine") {
		t.Errorf("the leader of members that ended: %v; want their last words", err)
	}
	two.Kill()
	if err := c.ended(); err != nil {
		t.Errorf("a member that was ended may be started again, but: %v", err)
	}
}
