package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/tenure-lease/tenure"
)

// event is one JSON line of --events.
type event struct {
	Event    string     `json:"event"` // waiting, acquired, renewed, stopping, lingering, lost, exited, released, leader, done
	Time     time.Time  `json:"time"`
	Name     string     `json:"name,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	Token    uint64     `json:"token,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Code     *int       `json:"code,omitempty"` // of the command
	Why      string     `json:"why,omitempty"`
}

// events prints what happens to a lease, from a goroutine of its own: a reader that
// reads no more must not keep us from ending the command in time. The zero value
// prints nothing.
type events struct {
	lines   chan []byte
	written chan struct{} // closed after the last line
}

// newEvents prints to w.
func newEvents(w io.Writer) events {
	e := events{make(chan []byte, 256), make(chan struct{})}
	go func() {
		defer close(e.written)
		for line := range e.lines {
			_, _ = w.Write(line) // a reader that went away does not end the tenure
		}
	}()
	return e
}

// print queues a line. When the output is not read for long, renewals are left out first, and
// then all else.
func (e *events) print(ev event) {
	if e.lines == nil || ev.Event == "renewed" && len(e.lines) > cap(e.lines)/2 {
		return
	}
	ev.Time = time.Now()
	line, err := json.Marshal(ev)
	if err != nil {
		panic(err) // plain fields only
	}
	select {
	case e.lines <- append(line, '\n'):
	default:
	}
}

// close waits until all has been written, but no longer than a second.
func (e *events) close() {
	if e.lines == nil {
		return
	}
	close(e.lines)
	select {
	case <-e.written:
	case <-time.After(time.Second):
	}
}

func (e *events) lease(what string, l tenure.Lease) {
	deadline := l.Deadline()
	e.print(event{Event: what, Name: l.Name(), Holder: l.Holder(), Token: l.Token(), Deadline: &deadline})
}

func (e *events) why(what string, l tenure.Lease, why string) {
	e.print(event{Event: what, Name: l.Name(), Token: l.Token(), Why: why})
}
