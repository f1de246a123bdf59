package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// event is one JSON line of --events.
type event struct {
	Event    string     `json:"event"` // waiting, acquired, renewed, stopping, lost, exited, released, leader
	Time     time.Time  `json:"time"`
	Name     string     `json:"name,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	Token    uint64     `json:"token,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Code     *int       `json:"code,omitempty"` // of the command
	Why      string     `json:"why,omitempty"`
}

// events prints what happens to a lease. The zero value prints nothing.
type events struct {
	mu sync.Mutex
	w  io.Writer
}

func (e *events) print(ev event) {
	if e.w == nil {
		return
	}
	ev.Time = time.Now()
	line, err := json.Marshal(ev)
	if err != nil {
		panic(err) // plain fields only
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// A reader that went away does not end the tenure.
	_, _ = e.w.Write(append(line, '\n'))
}

func (e *events) lease(what string, l tenure.Lease) {
	deadline := l.Deadline()
	e.print(event{Event: what, Name: l.Name(), Holder: l.Holder(), Token: l.Token(), Deadline: &deadline})
}

func (e *events) why(what string, l tenure.Lease, why string) {
	e.print(event{Event: what, Name: l.Name(), Token: l.Token(), Why: why})
}
