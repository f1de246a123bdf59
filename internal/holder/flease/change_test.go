package flease

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestTheNextList: a list of members may follow another, or is refused with a reason.
func TestTheNextList(t *testing.T) {
	type addrs = map[machine.NodeID]string
	now := Members{Epoch: 2, Addrs: addrs{1: "a:1", 2: "b:1"}, Was: addrs{1: "a:1", 9: "z:1"}}
	for name, tt := range map[string]struct {
		next Members
		says string // "" if it may follow
	}{
		"one more":                {Members{Epoch: 3, Addrs: addrs{1: "a:1", 2: "b:1", 3: "c:1"}}, ""},
		"with the members before": {Members{Epoch: 3, Addrs: addrs{2: "b:1", 3: "c:1"}, Was: addrs{1: "a:1", 2: "b:1"}}, ""},
		"of the same epoch":       {Members{Epoch: 2, Addrs: addrs{1: "a:1"}}, "raise the epoch with every change"},
		"of an earlier epoch":     {Members{Epoch: 1, Addrs: addrs{1: "a:1"}}, "raise the epoch with every change"},
		"that skips an epoch":     {Members{Epoch: 4, Addrs: addrs{1: "a:1"}}, "write epoch 3"},
		"with others before it":   {Members{Epoch: 3, Addrs: addrs{1: "a:1"}, Was: addrs{1: "a:1", 4: "d:1"}}, `write that with "was"`},
		"in which a peer moves":   {Members{Epoch: 3, Addrs: addrs{1: "a:1", 2: "b:2"}}, "a peer that moves is a new one"},
		"in which one comes back": {Members{Epoch: 3, Addrs: addrs{1: "a:1", 9: "z:1"}}, ""},
		"in which it has moved":   {Members{Epoch: 3, Addrs: addrs{1: "a:1", 9: "c:1"}}, "index 9, which is the peer at z:1, is at c:1 in epoch 3"},
		"that is none":            {Members{Epoch: 3}, "there are no members"},
		"with an index too great": {Members{Epoch: 3, Addrs: addrs{1024: "a:1"}}, "give it one from 1 to 1023"},
	} {
		if err := now.checkNext(tt.next); tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("a list %s: %v, want %q", name, err, tt.says)
		}
	}
}

// TestListsThatAreOffered: a list waits until the one before it is active, and another of the same
// epoch replaces it. A peer that knows the views between from others takes the newest list.
func TestListsThatAreOffered(t *testing.T) {
	type addrs = map[machine.NodeID]string
	list := func(epoch uint64, a addrs) Members { return Members{Epoch: epoch, Addrs: a} }
	two, three := addrs{1: "a:1", 2: "b:1"}, addrs{1: "a:1", 2: "b:1", 3: "c:1"}
	for name, tt := range map[string]struct {
		known, waits uint64
		active       uint64
		offered      Members
		says         string // "" if it is taken
	}{
		"the next":                         {1, 0, 1, list(2, three), ""},
		"one more, while the next waits":   {2, 3, 1, list(4, three), errEarly.Error()},
		"two more, while the next waits":   {2, 3, 1, list(5, three), "epochs go up by one"},
		"in the place of one that waits":   {2, 3, 1, list(3, three), ""},
		"the one that others are in":       {1, 0, 4, list(4, three), ""},
		"the one after that":               {1, 0, 4, list(5, three), ""},
		"beyond the one after that":        {1, 0, 4, list(6, three), "epochs go up by one"},
		"behind the one that is known":     {3, 0, 4, list(2, three), "raise the epoch with every change"},
		"of others, in which a peer moves": {1, 0, 4, list(4, addrs{1: "a:2"}), "a peer that moves is a new one"},
		"of others, that is none":          {1, 0, 4, list(4, nil), "there are no members"},
	} {
		p := &Peer{members: list(tt.known, two)}
		p.activeEpoch.Store(tt.active)
		var before Members
		if tt.waits != 0 {
			before = list(tt.waits, two)
		}
		p.later = before
		err := p.offer(tt.offered)
		switch {
		case tt.says == "" && (err != nil || p.later.Epoch != tt.offered.Epoch || len(p.later.Addrs) != 3):
			t.Errorf("a list, %s: %v, and %v waits; want that it is taken", name, err, p.later)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || p.later.Epoch != before.Epoch):
			t.Errorf("a list, %s: %v, and %v waits; want %q", name, err, p.later, tt.says)
		}
	}
}
