package readtorture

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// record is a line of a kept history.
type record struct {
	Plan   *Plan      `json:",omitempty"`
	Answer *operation `json:",omitempty"`
	Watch  int        `json:",omitempty"` // at which member
	Event  *event     `json:",omitempty"`
}

// keep writes down what is judged, for Rejudge.
func keep(path string, p *Plan, history []operation, shown [][]event) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffer := bufio.NewWriter(f)
	lines := json.NewEncoder(buffer)
	err = lines.Encode(record{Plan: p})
	for i := range history {
		err = errors.Join(err, lines.Encode(record{Answer: &history[i]}))
	}
	for i, list := range shown {
		for j := range list {
			err = errors.Join(err, lines.Encode(record{Watch: i, Event: &list[j]}))
		}
	}
	return errors.Join(err, buffer.Flush())
}

// Rejudge judges a history that was kept.
func Rejudge(path string) (out Outcome, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	var (
		p       Plan
		history []operation
		shown   [][]event
		lines   = json.NewDecoder(bufio.NewReader(f))
	)
	for {
		var r record
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return out, err
		}
		switch {
		case r.Plan != nil:
			p = *r.Plan
		case r.Answer != nil:
			history = append(history, *r.Answer)
		case r.Event != nil:
			for len(shown) <= r.Watch {
				shown = append(shown, nil)
			}
			shown[r.Watch] = append(shown[r.Watch], *r.Event)
		}
	}
	if len(shown) == 0 {
		return out, errors.New("the history has no events: it was not kept whole")
	}
	out.judge(&p, history, shown, nil)
	return out, nil
}
