package abcast

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/machine"
)

func TestChanges(t *testing.T) {
	g := Group{First: 7, Members: []Member{{1, "a"}, {3, "c"}}, Removed: []Member{{2, "b"}}}
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
		"nothing":           {Change{}, []machine.NodeID{1, 3}, false, nil},
		"a new one":         {Change{Add: []Member{{4, "d"}}}, []machine.NodeID{1, 3, 4}, true, nil},
		"who is there":      {Change{Add: []Member{{3, "c"}}}, []machine.NodeID{1, 3}, false, nil},
		"who has moved":     {Change{Add: []Member{{3, "x"}}}, []machine.NodeID{1, 3}, true, nil},
		"where another is":  {Change{Add: []Member{{4, "c"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"two at one place":  {Change{Add: []Member{{4, "d"}, {5, "d"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"in his place":      {Change{Add: []Member{{4, "c"}}, Remove: []machine.NodeID{3}}, []machine.NodeID{1, 4}, true, nil},
		"they change seats": {Change{Add: []Member{{1, "c"}, {3, "a"}}}, []machine.NodeID{1, 3}, true, nil},
		"who was removed":   {Change{Add: []Member{{2, "b"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"nobody":            {Change{Add: []Member{{0, "d"}}}, []machine.NodeID{1, 3}, false, ErrChange},
		"one less":          {Change{Remove: []machine.NodeID{1}}, []machine.NodeID{3}, true, nil},
		"a stranger leaves": {Change{Remove: []machine.NodeID{9}}, []machine.NodeID{1, 3}, false, nil},
		"all leave":         {Change{Remove: []machine.NodeID{1, 3}}, []machine.NodeID{1, 3}, false, ErrChange},
		"all are replaced":  {Change{Add: []Member{{4, "d"}}, Remove: []machine.NodeID{1, 3}}, []machine.NodeID{4}, true, nil},
		"too many":          {Change{Add: many}, []machine.NodeID{1, 3}, false, ErrChange},
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

// FuzzChange wants whatever decodes to encode to what decodes to the same.
func FuzzChange(f *testing.F) {
	f.Add(Change{Add: []Member{{4, "d"}, {5, ""}}, Remove: []machine.NodeID{1 << 40}}.Payload())
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
