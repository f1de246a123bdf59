package tenure

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// DefaultTTL is the TTL of a Claim that has none.
const DefaultTTL = 15 * time.Second

// maxNameBytes is the length of the longest name of a resource.
const maxNameBytes = 512

// Shared is the Slots of a claim that may be held beside any number of others
// that are shared too, as readers do.
const Shared = math.MaxInt32

// Claim says what is wanted. Only Name is required.
type Claim struct {
	// Name of the resource: UTF-8 without control characters, up to 512
	// bytes, not ending with a slash. Slashes may group names; "a" and "a/b" are
	// two resources that have nothing to do with each other.
	Name string

	// Holder is our name to people and observers; it decides nothing. Give it what others
	// need to find the holder, such as an address. Default "host:pid". The same rules hold
	// as for a name.
	Holder string

	// TTL is how long the lease outlives its last renewal: the longest that
	// others wait after we crashed, and the longest outage of the store that we
	// live through. An engine keeps it as it is, or refuses the claim and says which
	// TTLs it can keep: stores in directories and in Redis were made for one, etcd counts
	// whole seconds. The holder itself gives up a little earlier, by the margin that the engine
	// states for clocks that do not tick alike. 0 leaves it to the engine: DefaultTTL, that of
	// the stores, or the longest below it that the engine can keep.
	TTL time.Duration

	// Slots is the number of claims that may hold the name at once, this one included. 0
	// and 1 ask for exclusive tenure; n > 1 is one of n slots of a semaphore; Shared is a
	// reader among readers. Claims of different kinds may meet: a claim is never held while
	// more than its own Slots hold the name, and claims are admitted in their order of
	// arrival.
	Slots int

	// LockDelay is how much time passes between the end of our tenure and the
	// start of the next when we did not release: time for what we sent to
	// others in good faith to arrive. The delay is on the store's books while we
	// hold, so it holds for every kind of successor. A release is never
	// delayed; one that comes after the loss does not shorten the delay. Default 0.
	LockDelay time.Duration
}

// Complete returns the claim with its defaults filled in, or an error that
// wraps ErrClaim and says which field to change. Engines call it; there is no
// need to call it before Acquire.
func (c Claim) Complete() (Claim, error) {
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Slots == 0 {
		c.Slots = 1
	}
	if err := CheckName(c.Name); err != nil {
		return c, err
	}
	switch {
	case badText(c.Holder) != "":
		return c, fmt.Errorf("%w: holder %q %s", ErrClaim, c.Holder, badText(c.Holder))
	case c.TTL < 0:
		return c, fmt.Errorf("%w: TTL %v is negative; give a positive time, or 0 for %v", ErrClaim, c.TTL, DefaultTTL)
	case c.Slots < 1 || c.Slots > Shared:
		return c, fmt.Errorf("%w: %d slots; give 1 for exclusive tenure, n for one of n, or tenure.Shared", ErrClaim, c.Slots)
	case c.LockDelay < 0:
		return c, fmt.Errorf("%w: lock delay %v is negative; give 0 for none", ErrClaim, c.LockDelay)
	case c.TTL+c.LockDelay < 0:
		return c, fmt.Errorf("%w: TTL %v and lock delay %v are together longer than time.Duration holds; make them shorter", ErrClaim, c.TTL, c.LockDelay)
	}
	return c, nil
}

// CheckName returns an error that wraps ErrClaim if name cannot name a resource.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty; give the resource a name", ErrClaim)
	case badText(name) != "":
		return fmt.Errorf("%w: name %.40q %s", ErrClaim, name, badText(name))
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf("%w: name %q ends with a slash; drop it", ErrClaim, name)
	}
	return nil
}

// Admitted is the rule for claims that wait for one name: given the Slots of each
// in order of arrival, it returns how many, from the first, hold the name. No claim
// overtakes another, and every holder is content with the number of holders. Engines
// call it.
func Admitted(slots []int) int {
	allowed := Shared
	for i, n := range slots {
		if allowed = min(allowed, n); i+1 > allowed {
			return i
		}
	}
	return len(slots)
}

func badText(s string) string {
	switch {
	case len(s) > maxNameBytes:
		return fmt.Sprintf("is %d bytes long; %d is the most", len(s), maxNameBytes)
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has control characters; remove them"
	}
	return ""
}
