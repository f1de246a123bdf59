package flease

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/machine"
)

// TestTheNextList: which list of members may come after another, and what is said of the others.
func TestTheNextList(t *testing.T) {
	type addrs = map[machine.NodeID]string
	now := Members{Epoch: 2, Addrs: addrs{1: "a:1", 2: "b:1"}}
	for name, tt := range map[string]struct {
		next Members
		says string // "" if it may
	}{
		"one more":                {Members{Epoch: 3, Addrs: addrs{1: "a:1", 2: "b:1", 3: "c:1"}}, ""},
		"with the members before": {Members{Epoch: 3, Addrs: addrs{2: "b:1", 3: "c:1"}, Was: addrs{1: "a:1", 2: "b:1"}}, ""},
		"of the same epoch":       {Members{Epoch: 2, Addrs: addrs{1: "a:1"}}, "raise the epoch with every change"},
		"of an earlier epoch":     {Members{Epoch: 1, Addrs: addrs{1: "a:1"}}, "raise the epoch with every change"},
		"that skips an epoch":     {Members{Epoch: 4, Addrs: addrs{1: "a:1"}}, "write epoch 3"},
		"with others before it":   {Members{Epoch: 3, Addrs: addrs{1: "a:1"}, Was: addrs{1: "a:1", 4: "d:1"}}, `write that with "was"`},
		"in which a peer moves":   {Members{Epoch: 3, Addrs: addrs{1: "a:1", 2: "b:2"}}, "a peer that moves is a new one"},
		"that is none":            {Members{Epoch: 3}, "there are no members"},
		"with an index too great": {Members{Epoch: 3, Addrs: addrs{1024: "a:1"}}, "give it one from 1 to 1023"},
	} {
		if err := now.follows(tt.next); tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("a list %s: %v, want %q", name, err, tt.says)
		}
	}
}
