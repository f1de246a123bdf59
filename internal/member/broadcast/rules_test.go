package broadcast

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// logged keeps the lines that a member logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// Members that go by other rules would order other things: they refuse each other, and say
// what may be the matter.
func TestOtherRules(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"group":   func(c *Config) { c.Group = 8 },
		"clients": func(c *Config) { c.Clients = 5 },
		"plain":   func(c *Config) { c.Algorithm = func(a *abcast.Config) { a.Consensus.Plain = true } },
		"paper":   func(c *Config) { c.Algorithm = func(a *abcast.Config) { a.Consensus.Spread = false } },
	} {
		t.Run(name, func(t *testing.T) {
			members, listeners := map[machine.NodeID]string{}, map[machine.NodeID]net.Listener{}
			for id := machine.NodeID(1); id <= 2; id++ {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				members[id], listeners[id] = ln.Addr().String(), ln
			}
			logs := map[machine.NodeID]*logged{}
			for id, ln := range listeners {
				logs[id] = &logged{}
				cfg := Config{ID: id, Group: 7, Members: members, Listener: ln, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(logs[id], nil))}
				if id == 2 {
					change(&cfg)
				}
				n, err := Start(cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { n.Close() })
			}
			for _, log := range logs {
				patience.Until(t, "both say why they do not talk", func() bool { return log.has("Group, Clients or Algorithm is another") })
			}
		})
	}
}

// A number that is given is the same as the one that it stands for.
func TestSameRules(t *testing.T) {
	a, b := Config{Group: 7}, Config{Group: 7, Clients: clientsDefault, Algorithm: func(c *abcast.Config) { c.Pipeline, c.Consensus.Lambda = 2, 5 }}
	if a.cluster() != b.cluster() {
		t.Errorf("%x and %x: what each member may choose for itself makes other groups of them", a.cluster(), b.cluster())
	}
	for what, algorithm := range map[string]func(*abcast.Config){
		"without leases": func(c *abcast.Config) { c.Consensus.Plain = true },
		"other leaders":  func(c *abcast.Config) { c.Consensus.Spread = false },
	} {
		if b := (Config{Group: 7, Algorithm: algorithm}); a.cluster() == b.cluster() {
			t.Errorf("%s: members with other algorithms are of one group", what)
		}
	}
}
