package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// send has a host send a message to another at once.
func send(w *World, net *Network, body any) { net.send(machine.Envelope{From: 1, To: 2, Body: body}) }

// The network does to messages what it is told to, and nothing else.
func TestWhatBecomesOfMessages(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(w *World, net *Network)
		want string
	}{
		"nothing is wrong":       {func(*World, *Network) {}, "[{1 2 m}]"},
		"all are lost":           {func(_ *World, net *Network) { net.Loss = 1 }, "[]"},
		"all come twice":         {func(_ *World, net *Network) { net.Duplicate = 1 }, "[{1 2 m} {1 2 m}]"},
		"all are copied":         {func(_ *World, net *Network) { net.Copy = func(body any) any { return fmt.Sprint("a copy of ", body) } }, "[{1 2 a copy of m}]"},
		"all are taken":          {func(_ *World, net *Network) { net.Take = func(machine.Envelope) bool { return true } }, "[]"},
		"others are taken":       {func(_ *World, net *Network) { net.Take = func(e machine.Envelope) bool { return e.To == 1 } }, "[{1 2 m}]"},
		"the link is cut":        {func(_ *World, net *Network) { net.Cut(1, 2) }, "[]"},
		"the way back is cut":    {func(_ *World, net *Network) { net.Cut(2, 1) }, "[{1 2 m}]"},
		"it was cut, and is not": {func(_ *World, net *Network) { net.Cut(1, 2); net.Mend() }, "[{1 2 m}]"},
		"it is cut on the way":   {func(w *World, net *Network) { w.After(time.Second/2, func() { net.Cut(1, 2) }) }, "[]"},
		"it is whole again":      {func(w *World, net *Network) { net.Cut(1, 2); w.After(time.Second/2, net.Mend) }, "[]"},
		"the host is not there":  {func(_ *World, net *Network) { delete(net.hosts, 2) }, "[]"},
		"the host crashes":       {func(w *World, net *Network) { w.After(time.Second/2, net.hosts[2].Crash) }, "[]"},
		"the host is suspended": {func(w *World, net *Network) {
			w.After(time.Second/2, net.hosts[2].Suspend)
			w.After(time.Minute, net.hosts[2].Resume)
		}, "[]"},
		"the process stands still": {func(w *World, net *Network) {
			w.After(time.Second/2, net.hosts[2].Pause)
			w.After(time.Minute, net.hosts[2].Resume)
		}, "[{1 2 m}]"},
	} {
		w := NewWorld(1)
		net := NewNetwork(w, same)
		net.Min, net.Max = time.Second, time.Second
		newProbe(w, net, 1, 0)
		_, p := newProbe(w, net, 2, 0)
		tt.set(w, net)
		send(w, net, "m")
		w.Run(2 * time.Minute)
		if got := fmt.Sprint(p.inputs()); got != tt.want {
			t.Errorf("%s: the host hears %s, want %s", name, got, tt.want)
		}
	}
}

// Messages take from Min to Max, and some of them far longer; so later ones may overtake. With a way from host to
// host they take that besides, and arrive in order.
func TestHowLongMessagesTake(t *testing.T) {
	const n = 200
	for name, tt := range map[string]struct {
		slow        float64
		way         time.Duration // 0: none
		least, most time.Duration
		beyond      bool // some take longer than Max
		inOrder     bool
	}{
		"quick":     {0, 0, time.Millisecond, 10 * time.Millisecond, false, false},
		"slow":      {0.5, 0, time.Millisecond, 3*time.Second + 10*time.Millisecond, true, false},
		"far":       {0, time.Second, time.Second + time.Millisecond, time.Second + 10*time.Millisecond, true, true},
		"far, slow": {0.5, time.Second, time.Second + time.Millisecond, 4*time.Second + 10*time.Millisecond, true, true},
	} {
		w := NewWorld(1)
		net := NewNetwork(w, same)
		net.Min, net.Max, net.Slow = time.Millisecond, 10*time.Millisecond, tt.slow
		if tt.way > 0 {
			net.OneWay = func(machine.NodeID, machine.NodeID) time.Duration { return tt.way }
		}
		h, p := newProbe(w, net, 2, 0)
		h.Lag = 0
		for i := range n {
			send(w, net, i)
		}
		var bodies []int
		var beyond bool
		for at := time.Duration(0); at < 5*time.Second; at += time.Millisecond {
			w.Run(time.Millisecond)
			for _, in := range p.got[len(bodies):] {
				bodies = append(bodies, in.(machine.Envelope).Body.(int))
				beyond = beyond || w.Now() > net.Max+time.Millisecond
				if w.Now() < tt.least || w.Now() > tt.most+time.Millisecond {
					t.Errorf("%s: a message takes %v, want from %v to %v", name, w.Now(), tt.least, tt.most)
				}
			}
		}
		if inOrder := slices.IsSorted(bodies); len(bodies) != n || inOrder != tt.inOrder || beyond != tt.beyond {
			t.Errorf("%s: %d of %d messages arrive, in order: %v, some late: %v; want order: %v, some late: %v", name, len(bodies), n, inOrder, beyond, tt.inOrder, tt.beyond)
		}
	}
}
