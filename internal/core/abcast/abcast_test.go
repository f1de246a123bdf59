package abcast_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

func config() abcast.Config {
	return abcast.Config{
		Consensus: fastct.Config{ID: 1, Members: []machine.NodeID{1}, Retry: time.Second, Lambda: 10},
		Life:      1, BatchCount: 4, BatchBytes: 1000, PendingCount: 10, PendingBytes: 10_000, Pipeline: 1, Relay: time.Second, Clients: 3,
	}
}

// alone runs a group of one: its records are durable at once.
type alone struct {
	t         *testing.T
	m         *abcast.Machine
	log       []any
	delivered []abcast.Delivered
	refused   []abcast.Refused
}

func (a *alone) step(input any) {
	stage.Feed(a.m, machine.Now{}, input)
	for {
		rd := a.m.Ready()
		for _, out := range rd.Outcomes {
			switch o := out.(type) {
			case abcast.Delivered:
				a.delivered = append(a.delivered, o)
			case abcast.Refused:
				a.refused = append(a.refused, o)
			}
		}
		if len(rd.Persists) == 0 {
			return
		}
		for _, p := range rd.Persists {
			if p.Record != nil {
				a.log = append(a.log, p.Record)
			}
			for _, e := range p.Then {
				a.m.Receive(machine.Now{}, e)
			}
		}
	}
}

func start(t *testing.T, cfg abcast.Config, log []any) *alone {
	t.Helper()
	m, err := abcast.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	a := &alone{t: t, m: m, log: log}
	a.step(stage.Wake{})
	return a
}

func message(client byte, seq uint64, payload string) abcast.Broadcast {
	return abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, uint64(client)), Seq: seq, Payload: []byte(payload)}}
}

func TestBroadcasts(t *testing.T) {
	a := start(t, config(), nil)
	a.step(message(1, 1, "x"))
	a.step(message(1, 2, ""))
	a.step(message(2, 1, "y"))
	a.step(message(1, 2, "again"))
	var got string
	for _, d := range a.delivered {
		got += fmt.Sprintf("%d:%d.%d=%s ", d.Position, d.Client[15], d.Seq, d.Payload)
	}
	if want := "1:1.1=x 2:1.2= 3:2.1=y "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b := start(t, config(), a.log)
	if messages, ok := b.m.Messages(1, 10); !ok || len(messages) != 2 || b.m.Position() != 3 {
		t.Errorf("after a restart: %v (%v), position %d; want 2 messages behind the first, position 3", messages, ok, b.m.Position())
	}
	c := start(t, config(), b.m.Records())
	if messages, ok := c.m.Messages(0, 2); !ok || len(messages) != 2 || c.m.Position() != 3 {
		t.Errorf("from a new log: %v (%v), position %d; want the first 2 messages, position 3", messages, ok, c.m.Position())
	}
}

func TestRefusals(t *testing.T) {
	a := start(t, config(), nil)
	for _, tc := range []struct {
		m    abcast.Broadcast
		want error
	}{
		{message(1, 0, "zero"), abcast.ErrSequence},
		{message(1, 2, "early"), abcast.ErrSequence},
		{message(1, 1, string(make([]byte, 1000))), abcast.ErrTooLarge},
	} {
		a.refused = nil
		a.step(tc.m)
		if len(a.refused) != 1 || !errors.Is(a.refused[0].Err, tc.want) || len(a.delivered) > 0 {
			t.Errorf("number %d: got %v and %v, want %v", tc.m.Seq, a.refused, a.delivered, tc.want)
		}
	}
}

// The client that was ordered the longest ago is forgotten first, and its next message is
// refused and not lost.
func TestForgottenClients(t *testing.T) {
	a := start(t, config(), nil)
	for client := byte(1); client <= 4; client++ {
		a.step(message(client, 1, "x"))
	}
	a.step(message(1, 2, "y"))
	if len(a.refused) != 1 || !errors.Is(a.refused[0].Err, abcast.ErrSequence) || len(a.delivered) != 4 {
		t.Errorf("got %v and %v, want ErrSequence", a.refused, a.delivered)
	}
	a.step(message(2, 2, "y"))
	if len(a.delivered) != 5 {
		t.Errorf("client 2 is among the 3 of last, and its message was not delivered: %v", a.refused)
	}
}

func TestLogsWithAGap(t *testing.T) {
	a := start(t, config(), nil)
	for seq := range uint64(5) {
		a.step(message(1, seq+1, "x"))
	}
	a.step(abcast.Trim{Position: 3})
	if b := start(t, config(), a.log).m.Base(); b.Position != 3 {
		t.Errorf("after a restart messages follow position %d, want 3", b.Position)
	}
	var log []any
	for _, r := range a.log {
		if _, base := r.(abcast.Base); !base {
			log = append(log, r)
		}
	}
	if _, err := abcast.New(config(), log); !errors.Is(err, abcast.ErrLog) {
		t.Errorf("decisions without the state under them: got %v, want ErrLog", err)
	}
	other := config()
	other.Consensus.ID, other.Consensus.Members = 2, []machine.NodeID{2}
	if _, err := abcast.New(other, a.log); !errors.Is(err, abcast.ErrLog) {
		t.Errorf("another member's log: got %v, want ErrLog", err)
	}
}

// The configuration names the members at the first start. A log that is there knows.
func TestMembersAreOfTheLog(t *testing.T) {
	a := start(t, config(), nil)
	a.step(message(1, 1, "x"))
	for _, members := range [][]machine.NodeID{{1, 2, 3}, {2, 3}, nil} {
		other := config()
		other.Consensus.Members = members
		b := start(t, other, a.log)
		if got := b.m.Group().IDs(); !slices.Equal(got, []machine.NodeID{1}) || b.m.Position() != 1 {
			t.Errorf("configured as %v: the members are %v, at %d; want 1 alone, at 1", members, got, b.m.Position())
		}
	}
}

// How many clients are remembered decides what is ordered: it is the group's, for good.
func TestOtherClients(t *testing.T) {
	a := start(t, config(), nil)
	a.step(message(1, 1, "x"))
	other := config()
	other.Clients = 4
	for name, log := range map[string][]any{"the log": a.log, "a new log": a.m.Records()} {
		if _, err := abcast.New(other, log); !errors.Is(err, abcast.ErrLog) || !strings.Contains(err.Error(), "remember 3 clients") {
			t.Errorf("%s with other Clients: got %v, want ErrLog", name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*abcast.Config){
		"no batch":       func(c *abcast.Config) { c.BatchCount = 0 },
		"nothing waits":  func(c *abcast.Config) { c.PendingBytes = 10 },
		"no pipeline":    func(c *abcast.Config) { c.Pipeline = 0 },
		"a long one":     func(c *abcast.Config) { c.Pipeline = fastct.Window },
		"never relayed":  func(c *abcast.Config) { c.Relay = 0 },
		"no founder":     func(c *abcast.Config) { c.Consensus.ID = 9 },
		"nobody is kept": func(c *abcast.Config) { c.Clients = 0 },
	} {
		cfg := config()
		change(&cfg)
		if m, err := abcast.New(cfg, nil); err == nil {
			t.Errorf("%s: got %v, want an error", name, m)
		}
	}
}

// A group may be configured up to its limits, and not beyond them.
func TestConfigsAtTheLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*abcast.Config)
		says   string // empty: it may be so
	}{
		"one message each":       {func(c *abcast.Config) { c.BatchCount, c.PendingCount, c.Clients = 1, 1, 1 }, ""},
		"no message":             {func(c *abcast.Config) { c.BatchCount = 0 }, "a bound is missing"},
		"one byte":               {func(c *abcast.Config) { c.BatchBytes, c.PendingBytes = 1, 1 }, ""},
		"no bytes":               {func(c *abcast.Config) { c.BatchBytes, c.PendingBytes = 0, 0 }, "a bound is missing"},
		"nothing waits":          {func(c *abcast.Config) { c.PendingCount = 0 }, "a bound is missing"},
		"a batch waits":          {func(c *abcast.Config) { c.PendingBytes = c.BatchBytes }, ""},
		"less than a batch does": {func(c *abcast.Config) { c.PendingBytes = c.BatchBytes - 1 }, "a bound is missing"},
		"no pipeline":            {func(c *abcast.Config) { c.Pipeline = 0 }, "a bound is missing"},
		"as long a pipeline":     {func(c *abcast.Config) { c.Pipeline = fastct.Window / 2 }, ""},
		"too long a pipeline":    {func(c *abcast.Config) { c.Pipeline = fastct.Window/2 + 1 }, "is more than the"},
		"relayed soon":           {func(c *abcast.Config) { c.Relay = 1 }, ""},
		"relayed at once":        {func(c *abcast.Config) { c.Relay = 0 }, "a bound is missing"},
		"nobody is remembered":   {func(c *abcast.Config) { c.Clients = 0 }, "a bound is missing"},
		"nobody":                 {func(c *abcast.Config) { c.Consensus.ID, c.Join = 0, true }, "a bound is missing"},
	} {
		cfg := config()
		c.change(&cfg)
		_, err := abcast.New(cfg, nil)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

// The founders are in order, each at its address, in whichever order they were named.
func TestFounders(t *testing.T) {
	cfg := config()
	cfg.Consensus.Members = []machine.NodeID{3, 1, 2}
	cfg.Addresses = map[machine.NodeID]string{1: "a", 2: "b", 3: "c"}
	g := start(t, cfg, nil).m.Group()
	if !slices.Equal(g.Members, []abcast.Member{{ID: 1, Address: "a"}, {ID: 2, Address: "b"}, {ID: 3, Address: "c"}}) ||
		!slices.Equal(g.Configured, []machine.NodeID{1, 2, 3}) || g.First != 1 {
		t.Errorf("the founders are %+v", g)
	}
}
