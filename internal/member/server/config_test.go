package server

import (
	"log/slog"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// Fields that the API's configuration leaves open follow from the member's; the others stay.
func TestTheAPIFollowsTheMember(t *testing.T) {
	ours, own := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	m := newMemory(400<<20, ours)
	m.short.Store(true)
	cfg := Config{Node: node.Config{ElectionTimeout: 3 * time.Second, Logger: ours}}
	open := cfg.api(m)
	if open.ElectionTimeout != 3*time.Second {
		t.Errorf("streams without a leader are cut after three times %v, want the members' election timeout, 3s", open.ElectionTimeout)
	}
	if open.Logger != ours {
		t.Error("the API has not the member's logger")
	}
	if open.Short == nil || !open.Short() {
		t.Error("the API does not know that the member is short of memory")
	}
	if open.AnswerBytes != 100<<20 {
		t.Errorf("answers have %d bytes, want a quarter of the memory", open.AnswerBytes)
	}
	cfg.API = etcdapi.Config{ElectionTimeout: time.Minute, Logger: own, Short: func() bool { return false }, AnswerBytes: 7, MaxTxnOps: 5}
	said := cfg.api(m)
	if said.ElectionTimeout != time.Minute || said.Logger != own || said.Short() || said.AnswerBytes != 7 || said.MaxTxnOps != 5 {
		t.Errorf("got %+v, want what was said", said)
	}
}
