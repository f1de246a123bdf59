package readtorture

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tenure-lease/tenure/compat/server"
)

// cluster is what attacks happen to.
type cluster struct {
	*server.Cluster
	plan *Plan
	dir  string
	// owned is held, by member, while somebody kills it and starts it again.
	owned []sync.Mutex

	mu     sync.Mutex
	faults Faults
}

// Faults counts what was done, by what it is.
type Faults map[string]int

func (f Faults) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		list = append(list, fmt.Sprintf("%d %s", f[name], name))
	}
	return strings.Join(list, ", ")
}

func (c *cluster) did(fault fmt.Stringer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[fault.String()]++
}

// snapshots counts those that members have sent to others, by what they have logged.
func (c *cluster) snapshots() (n int, err error) {
	for _, m := range c.Members {
		log, err := os.ReadFile(m.Log)
		if err != nil {
			return n, err
		}
		n += bytes.Count(log, []byte(`"msg":"sent a snapshot"`))
	}
	return n, nil
}
