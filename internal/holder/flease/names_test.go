package flease

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestAPageOfNames: a page has the names with the prefix that are behind the last name of the page before, in order.
func TestAPageOfNames(t *testing.T) {
	p := scriptedPeer(t, &scripted{}, time.Second)
	defer p.driver.Stop()
	var r flease.Record
	now := p.cfg.clocks()
	for _, name := range []string{"b", "a/2", "a/1", "a", "a/3"} {
		r.Cells = append(r.Cells, flease.CellRecord{Name: name, Value: flease.Value{{Token: 1, Until: flease.TimeOf(now.Wall) + 5000, Slots: 1, Owner: 1, Incarnation: 9}}})
	}
	var err error
	p.machine, err = flease.New(flease.Config{
		Self: 1, Incarnation: 1, TMax: 10 * time.Second, Epsilon: 100 * time.Millisecond, View: flease.View{Epoch: 1, Members: []machine.NodeID{1}}, Restore: []*flease.Record{&r},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.driver.Do(func() { p.machine.Wake(now) })
	for _, tt := range []struct {
		in   inquiry
		want string
	}{
		{inquiry{}, "[a a/1 a/2 a/3 b]"},
		{inquiry{Prefix: "a"}, "[a a/1 a/2 a/3]"},
		{inquiry{Prefix: "a/"}, "[a/1 a/2 a/3]"},
		{inquiry{Prefix: "a/", After: "a/1"}, "[a/2 a/3]"},
		{inquiry{After: "a/25"}, "[a/3 b]"},
		{inquiry{After: "b"}, "[]"},
	} {
		if page := p.names(tt.in); fmt.Sprint(page.Names) != tt.want || page.More || page.Silent {
			t.Errorf("the page with the prefix %q behind %q is %+v, want %s", tt.in.Prefix, tt.in.After, page, tt.want)
		}
	}
	p.serving = false
	if page := p.names(inquiry{}); !page.Silent || page.Names != nil {
		t.Errorf("a silent peer answers %+v, want that it is silent", page)
	}
}
