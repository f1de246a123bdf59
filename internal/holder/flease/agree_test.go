package flease

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestWhatPeersMustHaveInCommon: peers with another cluster, t_max, ε or size of cells have no streams
// to each other, and the error names all differences. Lists of members count as different only
// within an epoch.
func TestWhatPeersMustHaveInCommon(t *testing.T) {
	ours := terms{Cluster: "c", TMax: time.Minute, Epsilon: time.Second, Replicas: 3, Self: 1, Life: 7, Epoch: 4, Active: 3, Members: map[machine.NodeID]string{1: "a:1"}}
	for name, tt := range map[string]struct {
		change func(o *terms)
		same   bool   // there are streams
		says   string // "" if they agree
	}{
		"none":             {func(*terms) {}, true, ""},
		"another peer":     {func(o *terms) { o.Self, o.Life, o.Active = 2, 8, 4 }, true, ""},
		"cluster":          {func(o *terms) { o.Cluster = "d" }, false, `the peer at b:1 is of cluster "d", this one of "c"`},
		"t_max":            {func(o *terms) { o.TMax = time.Hour }, false, "the peer at b:1 disagrees: t_max is 1m0s here and 1h0m0s there: give"},
		"ε":                {func(o *terms) { o.Epsilon = 0 }, false, "the peer at b:1 disagrees: ε is 1s here and 0s there: give"},
		"cells":            {func(o *terms) { o.Replicas = 5 }, false, "the peer at b:1 disagrees: the size of cells is 3 here and 5 there: give"},
		"t_max as ε":       {func(o *terms) { o.TMax, o.Epsilon = o.Epsilon, o.TMax }, false, "t_max is 1m0s here and 1s there; ε is 1s here and 1m0s there"},
		"members":          {func(o *terms) { o.Members = map[machine.NodeID]string{1: "b:1"} }, true, "the list of members is epoch 4: 1=a:1 here and epoch 4: 1=b:1 there"},
		"a member more":    {func(o *terms) { o.Members = map[machine.NodeID]string{1: "a:1", 2: "b:1"} }, true, "the list of members is"},
		"the next members": {func(o *terms) { o.Epoch, o.Members = 5, map[machine.NodeID]string{2: "b:1"} }, true, ""},
	} {
		theirs := ours
		theirs.Members = maps.Clone(ours.Members)
		tt.change(&theirs)
		if same := ours.id() == theirs.id(); same != tt.same {
			t.Errorf("%s differ: they have streams: %v", name, same)
		}
		if err := ours.disagreement(theirs, "b:1"); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s differ: %v, want %q", name, err, tt.says)
		}
	}
}

// TestWhatStartsBesideOthers: a peer may start with a list that follows on the view in which others
// vote. The list names the members before if not all peers are in the new view.
func TestWhatStartsBesideOthers(t *testing.T) {
	four, five := map[machine.NodeID]string{1: "a:1", 2: "b:1"}, map[machine.NodeID]string{1: "a:1", 3: "c:1"}
	plain, changing := Members{Epoch: 5, Addrs: five}, Members{Epoch: 5, Addrs: five, Was: four}
	for name, tt := range map[string]struct {
		with   Members
		theirs terms
		says   string // "" if it may start
	}{
		"all are in it":                     {plain, terms{Epoch: 5, Active: 5, Members: five}, ""},
		"all will be in the next":           {plain, terms{Epoch: 6, Active: 5, Members: four}, ""},
		"they are beyond it":                {plain, terms{Epoch: 6, Active: 6, Members: four}, "start it with the newest list"},
		"they are not in it yet":            {plain, terms{Epoch: 5, Active: 4, Members: five}, "does not name the members before"},
		"the change goes on":                {changing, terms{Epoch: 5, Active: 4, Members: five}, ""},
		"the change has not begun":          {changing, terms{Epoch: 4, Active: 4, Members: four}, ""},
		"the change is over":                {changing, terms{Epoch: 5, Active: 5, Members: five}, ""},
		"they are beyond the change":        {changing, terms{Epoch: 6, Active: 6, Members: four}, "start it with the newest list"},
		"they are two epochs behind":        {changing, terms{Epoch: 3, Active: 3, Members: four}, "first let epoch 4 become active"},
		"the one before is not active":      {changing, terms{Epoch: 4, Active: 3, Members: four}, "first let epoch 4 become active"},
		"there were others before":          {changing, terms{Epoch: 4, Active: 4, Members: five}, `says that there was epoch 4: 1=a:1 2=b:1, where there is epoch 4: 1=a:1 3=c:1: write that with "was"`},
		"the next list waits at the others": {changing, terms{Epoch: 6, Active: 5, Members: four}, ""},
	} {
		if err := tt.with.checkBeside(tt.theirs); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
