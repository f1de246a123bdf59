package broadcast

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// messages reads a fuzzer's input: messages of other members, each behind its length.
func messages(b []byte) (bodies []any) {
	r := wire.Reader{Rest: b}
	for len(r.Rest) > 0 && !r.Bad {
		if msg := r.Bytes(); len(msg) > 0 {
			if body, err := decode(msg[0], msg[1:]); err == nil {
				bodies = append(bodies, body)
			}
		}
	}
	return bodies
}

// FuzzMessages wants a member to outlive any message, and to start again with the records that
// it wrote.
func FuzzMessages(f *testing.F) {
	var all []byte
	for _, body := range bodies {
		f.Add(one(body), false)
		f.Add(one(body), true)
		all = append(all, one(body)...)
	}
	state := base
	state.Order.Clients, state.Order.Sessions = clientsDefault, nil
	f.Add(one(abcast.Transfer{Base: state}), false)
	f.Add(one(abcast.Transfer{Base: state}), true)
	f.Add(all, false)
	f.Add(all, true)
	f.Fuzz(func(t *testing.T, b []byte, join bool) {
		cfg := Config{ID: 1, Members: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"}, Join: join}
		m, err := abcast.New(cfg.machine(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		var log []any
		now := machine.Now{Mono: 1}
		settles := func() {
			for steps := 0; steps < 1000; steps++ {
				rd := m.Ready()
				for _, p := range rd.Persists {
					if p.Record != nil {
						log = append(log, p.Record)
					}
					for _, e := range p.Then {
						if e.To == 1 {
							m.Receive(now, e)
						}
					}
				}
				for _, out := range rd.Outcomes {
					if l, ok := out.(abcast.Lacks); ok {
						m.Step(now, abcast.Restored{Position: l.Position})
					}
				}
				if len(rd.Persists)+len(rd.Outcomes) == 0 {
					return
				}
			}
			t.Fatal("it does not come to rest")
		}
		m.Wake(now)
		m.Step(now, abcast.Suspect{Node: 3, Suspected: true})
		settles()
		for i, body := range messages(b) {
			e := machine.Envelope{From: machine.NodeID(2 + i%2), To: 1, Body: body}
			if _, ours := body.(want); ours || impossible(e, cfg.clients()) != nil {
				continue
			}
			m.Receive(now, e)
			settles()
			now.Mono += machine.Mono(cfg.timeout() / 8)
			m.Wake(now)
			settles()
		}
		for _, r := range log {
			b := encode(r)
			if _, err := decode(b[0], b[1:]); err != nil {
				t.Fatalf("%+v cannot be read back: %v", r, err)
			}
		}
		if _, err := abcast.New(cfg.machine(2), log); err != nil {
			t.Fatalf("it does not start again: %v", err)
		}
	})
}

// one is a message in an input of FuzzMessages.
func one(body any) []byte {
	var w writer
	w.Bytes(encode(body))
	return w.Writer
}
