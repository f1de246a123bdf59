package tenure_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenure-lease/tenure"
)

func TestClaimDefaults(t *testing.T) {
	c, err := tenure.Claim{Name: "n"}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	if want := fmt.Sprintf("%s:%d", host, os.Getpid()); c.Holder != want {
		t.Errorf("holder is %q, want this host and process: %q", c.Holder, want)
	}
	want := tenure.Claim{Name: "n", Holder: c.Holder, TTL: tenure.DefaultTTL, Slots: 1}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("a claim with its defaults differs: %s", diff)
	}
	if again, err := c.Complete(); err != nil || again != c {
		t.Errorf("a complete claim became %+v, %v", again, err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "/a", "a/b", "a//b", "é", "a b", strings.Repeat("x", 512)} {
		if err := tenure.CheckName(name); err != nil {
			t.Errorf("%.10q is refused: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"":                           "is empty; give the resource a name",
		"a/":                         "ends with a slash; drop it",
		"/":                          "ends with a slash; drop it",
		"a\nb":                       "has control characters; remove them",
		"a\u0085":                    "has control characters; remove them",
		"a\xff":                      "is not valid UTF-8",
		"a\x00b":                     "has control characters",
		strings.Repeat("x", 512+1):   "is 513 bytes long; 512 is the most",
		strings.Repeat("é", 512/2+1): "is 514 bytes long; 512 is the most",
	} {
		err := tenure.CheckName(name)
		if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: got %v, want it to say %q", name, err, want)
		}
	}
}

func TestAdmitted(t *testing.T) {
	const x, s = 1, tenure.Shared
	for _, c := range []struct {
		queue []int
		want  int
	}{
		{nil, 0},
		{[]int{x}, 1},
		{[]int{x, x}, 1},
		{[]int{x, s, s}, 1},
		{[]int{s, s, s}, 3},
		{[]int{s, s, x, s}, 2},
		{[]int{3, 3, 3, 3}, 3},
		{[]int{3, 2, 3}, 2},
		{[]int{s, 2, s}, 2},
		{[]int{s, s, 2}, 2},
	} {
		if got := tenure.Admitted(c.queue); got != c.want {
			t.Errorf("%v: %d admitted, want %d", c.queue, got, c.want)
		}
	}
}

// TestAdmittedStay: a holder goes on holding when others leave or arrive.
func TestAdmittedStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{1, 2, 3, 5, tenure.Shared})
		var queue []int
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			before := tenure.Admitted(queue)
			for i, n := range queue[:before] {
				if before > n {
					t.Fatalf("%v: %d hold, and number %d bears %d", queue, before, i, n)
				}
			}
			if len(queue) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(queue)-1).Draw(t, "who")
				queue = append(queue[:i:i], queue[i+1:]...)
				if i < before {
					before--
				}
			} else {
				queue = append(queue, slots.Draw(t, "slots"))
			}
			if after := tenure.Admitted(queue); after < before {
				t.Fatalf("%v: %d hold, and %d held before", queue, after, before)
			}
		}
	})
}

func TestHeldError(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for want, err := range map[string]tenure.HeldError{
		`"n" is held by h`: {Name: "n", Holder: "h"},
		`"n" is held by h until 2026-01-02T03:04:05.000000678Z unless renewed`: {Name: "n", Holder: "h", Until: until},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestClaimsThatCannotBe: each error says which field to change.
func TestClaimsThatCannotBe(t *testing.T) {
	more := int(tenure.Shared)
	more++ // which a constant could not where an int is short
	for want, c := range map[string]tenure.Claim{
		"the name is empty":      {},
		"-1 slots":               {Name: "n", Slots: -1},
		" slots; give 1":         {Name: "n", Slots: more},
		"has control characters": {Name: "n", Holder: "a\nb"},
		"is 513 bytes long":      {Name: "n", Holder: strings.Repeat("x", 512+1)},
	} {
		if _, err := c.Complete(); !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrClaim that says %q, got %v for %+v", want, err, c)
		}
	}
	if c, err := (tenure.Claim{Name: "n", Slots: tenure.Shared}).Complete(); err != nil || c.Slots != tenure.Shared {
		t.Errorf("a reader: got %d slots, %v", c.Slots, err)
	}
}

func TestTimesThatCannotBe(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, c := range []tenure.Claim{
		{Name: "n", TTL: -1}, {Name: "n", LockDelay: -1}, {Name: "n", TTL: 2 * century, LockDelay: century},
	} {
		if _, err := c.Complete(); !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("TTL %v, lock delay %v: %v, want ErrClaim", c.TTL, c.LockDelay, err)
		}
	}
	if _, err := (tenure.Claim{Name: "n", TTL: century, LockDelay: century}).Complete(); err != nil {
		t.Errorf("a century each: %v", err)
	}
}
