package replica

import "fmt"

// discard is a raft.Logger that says nothing, and panics when raft does.
type discard struct{}

func (discard) Debug(...any)            {}
func (discard) Debugf(string, ...any)   {}
func (discard) Info(...any)             {}
func (discard) Infof(string, ...any)    {}
func (discard) Warning(...any)          {}
func (discard) Warningf(string, ...any) {}
func (discard) Error(...any)            {}
func (discard) Errorf(string, ...any)   {}
func (discard) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (discard) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (discard) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (discard) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
