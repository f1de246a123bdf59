package abcast

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestChanges(t *testing.T) {
	g := Group{First: 7, Members: []Member{{ID: 1, Address: "a"}, {ID: 3, Address: "c"}}, Removed: []Member{{ID: 2, Address: "b"}}}
	var many []Member
	for id := machine.NodeID(10); id < 10+MembersMax; id++ {
		many = append(many, Member{ID: id})
	}
	for name, tc := range map[string]struct {
		c       Change
		members []machine.NodeID
		changed bool
		err     error
	}{
		"nothing":                   {Change{}, []machine.NodeID{1, 3}, false, nil},
		"a new one":                 {Change{Add: []Member{{ID: 4, Address: "d"}}}, []machine.NodeID{1, 3, 4}, true, nil},
		"a member that is there":    {Change{Add: []Member{{ID: 3, Address: "c"}}}, []machine.NodeID{1, 3}, false, nil},
		"a member that has moved":   {Change{Add: []Member{{ID: 3, Address: "x"}}}, []machine.NodeID{1, 3}, true, nil},
		"where another is":          {Change{Add: []Member{{ID: 4, Address: "c"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"two at one place":          {Change{Add: []Member{{ID: 4, Address: "d"}, {ID: 5, Address: "d"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"in his place":              {Change{Add: []Member{{ID: 4, Address: "c"}}, Remove: []machine.NodeID{3}}, []machine.NodeID{1, 4}, true, nil},
		"they change seats":         {Change{Add: []Member{{ID: 1, Address: "c"}, {ID: 3, Address: "a"}}}, []machine.NodeID{1, 3}, true, nil},
		"a member that was removed": {Change{Add: []Member{{ID: 2, Address: "b"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"nobody":                    {Change{Add: []Member{{ID: 0, Address: "d"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"one less":                  {Change{Remove: []machine.NodeID{1}}, []machine.NodeID{3}, true, nil},
		"a stranger leaves":         {Change{Remove: []machine.NodeID{9}}, []machine.NodeID{1, 3}, false, nil},
		"all leave":                 {Change{Remove: []machine.NodeID{1, 3}}, []machine.NodeID{1, 3}, false, ErrChange},
		"all are replaced":          {Change{Add: []Member{{ID: 4, Address: "d"}}, Remove: []machine.NodeID{1, 3}}, []machine.NodeID{4}, true, nil},
		"too many":                  {Change{Add: many}, []machine.NodeID{1, 3}, false, ErrChange},
	} {
		back, err := decodeChange(tc.c.Payload())
		if err != nil || !reflect.DeepEqual(back, tc.c) {
			t.Errorf("%s: %+v became %+v, %v", name, tc.c, back, err)
		}
		after, changed, err := g.after(tc.c)
		if !slices.Equal(after.IDs(), tc.members) || changed != tc.changed || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %v, %v, %v; want %v, %v, %v", name, after.IDs(), changed, err, tc.members, tc.changed, tc.err)
		}
		for _, id := range tc.c.Remove {
			if changed && g.Has(id) && !after.Gone(id) {
				t.Errorf("%s: %d may return", name, id)
			}
		}
	}
	if len(g.Members) != 2 || len(g.Removed) != 1 {
		t.Errorf("the group before has changed: %+v", g)
	}
}

// Configured differs from member to member, and does not influence a change.
func TestChangesOfConfigured(t *testing.T) {
	for _, address := range []string{"a", "localhost", ""} {
		g := Group{First: 1, Members: []Member{{ID: 1, Address: address}, {ID: 2, Address: "b"}}, Configured: []machine.NodeID{1, 2}}
		g, changed, err := g.after(Change{Add: []Member{{ID: 1, Address: "a"}}})
		if !changed || err != nil || !slices.Equal(g.Configured, []machine.NodeID{2}) {
			t.Errorf("%q is named a: %+v, changed %v, %v", address, g, changed, err)
		}
		if _, changed, err := g.after(Change{Add: []Member{{ID: 1, Address: "a"}}}); changed || err != nil {
			t.Errorf("%q is named a again: changed %v, %v", address, changed, err)
		}
		if _, _, err := g.after(Change{Add: []Member{{ID: 3, Address: "a"}}}); !errors.Is(err, ErrChange) {
			t.Errorf("a third one at a, where one was named: got %v, want ErrChange", err)
		}
		if after, _, err := g.after(Change{Add: []Member{{ID: 3, Address: "b"}}}); err != nil || !after.Has(3) {
			t.Errorf("a third one at b, which is only configured: got %+v, %v", after, err)
		}
	}
}

// FuzzChange wants whatever decodes to encode to what decodes to the same.
func FuzzChange(f *testing.F) {
	f.Add(Change{Add: []Member{{ID: 4, Address: "d"}, {ID: 5, Address: ""}}, Remove: []machine.NodeID{1 << 40}}.Payload())
	f.Add([]byte{255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChange(b)
		if err != nil {
			return
		}
		if same, err := decodeChange(c.Payload()); err != nil || !reflect.DeepEqual(same, c) {
			t.Errorf("%+v became %+v, %v", c, same, err)
		}
	})
}
