package redis

import (
	"strings"
	"testing"

	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// Connect loads the scripts of all operations, so that each takes one round trip.
func TestAllThatDoCallsIsLoaded(t *testing.T) {
	_, s := made(t, 0, 1)
	do(t, s, query("x"))
	for name, x := range map[string]*script{"query": queryScript, "put": putScript, "note": noteScript, "leave": leaveScript, "forget": forgetScript} {
		there, err := s.client.ScriptExists(t.Context(), x.hash).Result()
		if err != nil || len(there) != 1 || !there[0] {
			t.Errorf("the script %s is there: %v, %v", name, there, err)
		}
	}
}

// Of scripts that are called together, only those that the server does not know are called again:
// any other may have been executed.
func TestOnlyUnknownScriptsAreCalledAgain(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, query("x"))
	says := map[string]string{noteScript.hash: "NOSCRIPT No matching script. Please use EVAL.", putScript.hash: "OOM command not allowed"}
	var calls []string
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, args ...string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch cmd = strings.ToUpper(cmd); cmd {
		case "EVALSHA":
			calls = append(calls, cmd)
			if text := says[args[0]]; text != "" {
				c.WriteError(text)
				return true
			}
		case "EVAL":
			calls = append(calls, cmd+" "+map[string]string{noteScript.source: "note", putScript.source: "put", queryScript.source: "query"}[args[0]])
		}
		return false
	})
	replies := s.Do([]register.Op{put("x", 1, ann, "a"), note("x", 1, bob, "n"), query("x")})
	h.mu.Lock()
	defer h.mu.Unlock()
	if got, want := strings.Join(calls, ", "), "EVALSHA, EVALSHA, EVALSHA, EVAL note"; got != want {
		t.Errorf("the server was asked %s, want %s", got, want)
	}
	for i, fails := range []bool{true, false, false} {
		if err := replies[i].Err; (err != nil) != fails {
			t.Errorf("operation %d: %v, want an error: %v", i, err, fails)
		}
	}
}
