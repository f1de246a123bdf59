package flease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A configuration has the documented defaults, and each limit holds at its edge and not beyond.
func TestConfigsAtTheirLimits(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		edit func(c *Config)
		says string // "" if it can be
		want func(c Config) bool
	}{
		"defaults": {func(*Config) {}, "", func(c Config) bool {
			return c.RoundTimeout == 250*ms && c.MaxClaims == 4_194_304 && c.MaxAttempts == 4096 && c.MaxQueued == 65_536 && c.Epsilon == 100*ms
		}},
		"the shortest round":       {func(c *Config) { c.TMax, c.Epsilon = 100*ms, ms }, "", func(c Config) bool { return c.RoundTimeout == 5*ms }},
		"the longest round":        {func(c *Config) { c.TMax = time.Hour }, "", func(c Config) bool { return c.RoundTimeout == 500*ms }},
		"fractions are rounded up": {func(c *Config) { c.Epsilon, c.RoundTimeout = ms+1, 7*ms+1 }, "", func(c Config) bool { return c.Epsilon == 2*ms && c.RoundTimeout == 8*ms }},
		"given values stay": {func(c *Config) { c.MaxClaims, c.MaxAttempts, c.MaxQueued, c.Guard = 1, 2, 3, 2500*ms }, "", func(c Config) bool {
			return c.MaxClaims == 1 && c.MaxAttempts == 2 && c.MaxQueued == 3 && c.Guard == 2500*ms
		}},
		"the greatest index":              {func(c *Config) { c.Self = 1023 }, "", nil},
		"a greater index":                 {func(c *Config) { c.Self = 1024 }, "member index 1024; give each peer one of 1 to 1023", nil},
		"the longest t_max":               {func(c *Config) { c.TMax = 1000 * time.Hour }, "", nil},
		"a longer t_max":                  {func(c *Config) { c.TMax = 1000*time.Hour + ms }, "at most 1000h", nil},
		"the shortest t_max":              {func(c *Config) { c.TMax, c.RoundTimeout = 801*ms, 100*ms }, "", nil},
		"a shorter t_max":                 {func(c *Config) { c.TMax, c.RoundTimeout = 800*ms, 100*ms }, "make it more than 800ms", nil},
		"a negative ε":                    {func(c *Config) { c.Epsilon = -5 * ms }, "ε = -5ms; say by how much clocks may differ", nil},
		"an ε that is hardly negative":    {func(c *Config) { c.Epsilon = -1 }, "ε = -1ns; say by how much clocks may differ", nil},
		"no ε":                            {func(c *Config) { c.Epsilon = 0 }, "ε = 0s; say by how much clocks may differ", nil},
		"a negative round":                {func(c *Config) { c.RoundTimeout = -5 * ms }, "a round timeout of -5ms is negative; leave it out for 250ms", nil},
		"a round that is hardly negative": {func(c *Config) { c.RoundTimeout = -1 }, "a round timeout of -1ns is negative; leave it out for 250ms", nil},
		"a guard beyond":                  {func(c *Config) { c.Guard = 2500*ms + 1 }, "at most a quarter of t_max = 10s", nil},
		"a negative guard":                {func(c *Config) { c.Guard = -1 }, "want 0 for the default", nil},
		"all claims that can be":          {func(c *Config) { c.MaxClaims = 1 << 22 }, "", nil},
		"one claim more":                  {func(c *Config) { c.MaxClaims = 1<<22 + 1 }, "claims at most 4194304", nil},
		"one of each":                     {func(c *Config) { c.MaxClaims, c.MaxAttempts, c.MaxQueued = 1, 1, 1 }, "", nil},
		"less than no claim":              {func(c *Config) { c.MaxClaims = -1 }, "limits of -1 claims, 4096 attempts, 65536 queued", nil},
		"less than no attempt":            {func(c *Config) { c.MaxAttempts = -1 }, "limits of 4194304 claims, -1 attempts, 65536 queued", nil},
		"less than none that waits":       {func(c *Config) { c.MaxQueued = -1 }, "limits of 4194304 claims, 4096 attempts, -1 queued", nil},
		"the greatest index of a member":  {func(c *Config) { c.View.Members = []machine.NodeID{1, 1023} }, "", nil},
		"a greater index of a member":     {func(c *Config) { c.View.Members = []machine.NodeID{1, 1024} }, "want indices from 1 to 1023", nil},
		"a member of index 0":             {func(c *Config) { c.View.Members = []machine.NodeID{0, 1} }, "want indices from 1 to 1023", nil},
		"cells of all that can be":        {func(c *Config) { c.View.Replicas = 31 }, "", nil},
		"cells of one more":               {func(c *Config) { c.View.Replicas = 32 }, "want 1 to 31", nil},
		"cells of less than nobody":       {func(c *Config) { c.View.Replicas = -1 }, "want 1 to 31", nil},
	} {
		cfg := testConfig(1, 3)
		tt.edit(&cfg)
		got, err := cfg.Complete()
		if (err == nil) != (tt.says == "") || err != nil && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		if err == nil && tt.want != nil && !tt.want(got) {
			t.Errorf("%s: it is completed to %+v", name, got)
		}
	}
	cfg, err := testConfig(1, 3).Complete()
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct{ got, want time.Duration }{
		"a start is silent for":     {cfg.Quarantine(), 10*time.Second + 300*ms},
		"t_max must be more than":   {cfg.minTMax(), 4*100*ms + 4*250*ms},
		"no TTL is shorter than":    {cfg.MinTTL(), time.Second},
		"an attempt may take":       {cfg.attemptTimeout(), 500 * ms},
		"a waiter looks every":      {cfg.poll(), 312500 * time.Microsecond},
		"a holder stops earlier by": {cfg.guard(2 * time.Second), 100 * ms},
	} {
		if tt.got != tt.want {
			t.Errorf("%s %v, want %v", what, tt.got, tt.want)
		}
	}
	cfg.TMax, cfg.Guard = 4*time.Second, time.Second
	for what, tt := range map[string]struct{ got, want time.Duration }{
		"in rounds that are longer, a waiter looks every": {cfg.poll(), 250 * ms},
		"by what is configured":                           {cfg.guard(4 * time.Second), time.Second},
		"by a quarter at most":                            {cfg.guard(4*time.Second - 4), time.Second - 1},
	} {
		if tt.got != tt.want {
			t.Errorf("%s %v, want %v", what, tt.got, tt.want)
		}
	}
	cfg.TMax = 10 * cfg.Epsilon
	if said := cfg.Advice(); said != "" {
		t.Errorf("ten times ε is advised against: %q", said)
	}
	cfg.TMax--
	if said := cfg.Advice(); !strings.Contains(said, "less than ten times ε = 100ms") {
		t.Errorf("less than ten times ε is no reason for advice: %q", said)
	}
}

// Times are whole milliseconds, rounded down, before 1970 too; durations are rounded up.
func TestTimesAreWholeMilliseconds(t *testing.T) {
	const start = origin * 1_000_000
	for wall, want := range map[int64]Time{start: 0, start + 999_999: 0, start + 1_000_000: 1, start - 1: -1, start - 1_000_000: -1, start - 1_000_001: -2, -1: -origin - 1, 0: -origin} {
		if got := TimeOf(machine.Wall(wall)); got != want {
			t.Errorf("%d ns are %d ms, want %d", wall, got, want)
		}
	}
	for d, want := range map[time.Duration]Time{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2} {
		if got := millis(d); got != want {
			t.Errorf("%v are %d ms, want %d", d, got, want)
		}
	}
	if Time(5).Wall() != machine.Wall(start+5_000_000) || Time(5).duration() != 5*time.Millisecond {
		t.Errorf("5 ms are %v and %v", Time(5).Wall(), Time(5).duration())
	}
	k := BallotOf(5, 6, 7)
	if k.Time() != 5 || k.Member() != 7 || k.String() != "5.6/7" || ballotAt(-3) != 0 || BallotOf(5, 1<<13-1, 1023)+1 != BallotOf(6, 0, 0) {
		t.Errorf("a ballot of 5, 6 and 7 is %v", k)
	}
}
