package broadcast

import (
	"crypto/tls"
	"log/slog"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// TestOptionsReachTheMember: each field of a Config is passed on, and to the right place.
func TestOptionsReachTheMember(t *testing.T) {
	l, secure, logger := &net.TCPListener{}, &tls.Config{}, slog.New(slog.DiscardHandler)
	cfg := Config{
		ID: 1, Group: 2, Members: map[MemberID]string{1: "a:1", 2: "b:1"}, Join: true, Listener: l, TLS: secure, DataDir: "dir",
		SuspicionTimeout: 3 * time.Second, MaxPendingBytes: 5, MemoryBytes: 6, MaxClients: 7, Logger: logger,
	}
	want := broadcast.Config{
		ID: 1, Group: 2, Members: map[machine.NodeID]string{1: "a:1", 2: "b:1"}, Join: true, Listener: l, TLS: secure, Dir: "dir",
		Timeout: 3 * time.Second, PendingBytes: 5, MemoryBytes: 6, Clients: 7, Logger: logger,
	}
	for v, i := reflect.ValueOf(cfg), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test says nothing of Config.%s", v.Type().Field(i).Name)
		}
	}
	if got := cfg.member(); !reflect.DeepEqual(got, want) {
		t.Errorf("the member is configured as %+v, want %+v", got, want)
	}
	if got := (Config{}).member(); !reflect.DeepEqual(got, broadcast.Config{}) {
		t.Errorf("an empty Config configures %+v, want the defaults", got)
	}
}

// Each error is the member's of the same name.
func TestErrorsAreTheMembers(t *testing.T) {
	for name, is := range map[string]struct{ got, want error }{
		"ErrBusy": {ErrBusy, broadcast.ErrBusy}, "ErrUnknown": {ErrUnknown, broadcast.ErrUnknown}, "ErrClosed": {ErrClosed, broadcast.ErrClosed},
		"ErrTrimmed": {ErrTrimmed, broadcast.ErrTrimmed}, "ErrPosition": {ErrPosition, broadcast.ErrPosition}, "ErrTooLarge": {ErrTooLarge, broadcast.ErrTooLarge},
		"ErrSequence": {ErrSequence, broadcast.ErrSequence}, "ErrClient": {ErrClient, broadcast.ErrClient}, "ErrNotMember": {ErrNotMember, broadcast.ErrNotMember},
		"ErrRemoved": {ErrRemoved, broadcast.ErrRemoved}, "ErrChange": {ErrChange, broadcast.ErrChange}, "ErrForgotten": {ErrForgotten, broadcast.ErrForgotten},
		"ErrOrder": {ErrOrder, broadcast.ErrOrder},
	} {
		if is.got != is.want {
			t.Errorf("%s is %q, want %q", name, is.got, is.want)
		}
	}
}
