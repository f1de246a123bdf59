package widearea

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tenure-lease/tenure/internal/lab/ycsb"
)

// Workload is what clients ask for.
type Workload struct {
	Name  string  `json:"name"`
	Theta float64 `json:"theta"` // Zipf's exponent; 0 is uniform
	Reads float64 `json:"reads"` // their share
	// Keys is how many keys an operation has, all of them read or all written at once;
	// 0 is one. They always go together, or Apart: one is drawn by what is popular at
	// the client's site, each other by what is popular at another site.
	Keys  int  `json:"keys_per_operation,omitempty"`
	Apart bool `json:"apart,omitempty"`
}

// The paper's workloads. In Figure 6 there is a write for each read, in Table 2 one
// for nine; its QL-uniform has no popular keys.
var (
	Figure6 = Workload{Name: "zipf 1:1", Theta: ycsb.Theta, Reads: 0.5}
	Uniform = Workload{Name: "uniform 1:1", Reads: 0.5}
	Table2  = Workload{Name: "zipf 9:1", Theta: ycsb.Theta, Reads: 0.9}
)

// The paper has no run of operations on several keys, but section 5.5 gives the expected
// times: together, what single keys cost; apart, writes like Megastore's.
var (
	Together = Workload{Name: "3 keys together", Theta: ycsb.Theta, Reads: 0.5, Keys: 3}
	Apart    = Workload{Name: "3 keys apart", Theta: ycsb.Theta, Reads: 0.5, Keys: 3, Apart: true}
)

// Workloads are all of them.
var Workloads = []Workload{Figure6, Uniform, Table2, Together, Apart}

// Load is what the clients of one site ask for.
type Load struct {
	Workload
	site  int
	sites []ycsb.Site // the popular keys of each
}

// Loads returns the keys that each site's clients ask for: each site has its own popular
// keys.
func (w Workload) Loads(seed uint64, keys int) []Load {
	if !w.Apart {
		keys /= max(w.Keys, 1) // as many groups
	}
	popularity := ycsb.NewZipf(keys, w.Theta)
	sites := make([]ycsb.Site, len(Sites))
	for s := range sites {
		order := ycsb.NewOrder(keys, rand.New(rand.NewPCG(seed, uint64(s))))
		sites[s] = ycsb.Site{Popularity: popularity, Order: order, Reads: w.Reads}
	}
	loads := make([]Load, len(Sites))
	for s := range loads {
		loads[s] = Load{w, s, sites}
	}
	return loads
}

// Next draws an operation: keys by their numbers, see [KeyName].
func (l Load) Next(source ycsb.Source) (keys []int, read bool) {
	op := l.sites[l.site].Next(source)
	switch {
	case l.Keys <= 1:
		return []int{op.Key}, op.Read
	case !l.Apart:
		for i := range l.Keys {
			keys = append(keys, op.Key*l.Keys+i)
		}
		return keys, op.Read
	}
	keys = []int{op.Key}
	for other := int(source.Uint64() % uint64(len(Sites))); len(keys) < l.Keys; other = (other + 1) % len(Sites) {
		if other == l.site {
			continue
		}
		if key := l.sites[other].Next(source).Key; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, op.Read
}

// keyNames names the keys so that they sort by their number.
func keyNames(n int) [][]byte {
	names := make([][]byte, n)
	for i := range names {
		names[i] = []byte(KeyName(i))
	}
	return names
}

// KeyName names a key; names sort by number.
func KeyName(n int) string { return fmt.Sprintf("key%09d", n) }
