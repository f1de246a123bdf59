package replica

import (
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
)

// What raft dies of is told, though nobody listens to it.
func TestRaftsLastWords(t *testing.T) {
	var l raft.Logger = discard{}
	for name, die := range map[string]func(){
		"Fatal": func() { l.Fatal("the log ends at ", 7) }, "Fatalf": func() { l.Fatalf("the log ends at %d", 7) },
		"Panic": func() { l.Panic("the log ends at ", 7) }, "Panicf": func() { l.Panicf("the log ends at %d", 7) },
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "the log ends at 7") {
					t.Errorf("%s: raft dies with %q", name, said)
				}
			}()
			die()
		}()
	}
}
