package sim

import (
	"fmt"
	"runtime"
	"strings"
)

// Protocol is a kind of world that can be played under any seed.
type Protocol struct {
	// Name is the name of the package that is judged.
	Name string
	// About describes in a line the worlds and the rules that are checked.
	About string
	// Play plays one world to its end: it draws the processes and the faults from w, lets
	// time pass, heals everything, and returns the violation, if any. All that it does must
	// follow from w.
	Play func(w *World) error
	// Alone says that no other world may be played in this process meanwhile.
	Alone bool
}

// Replay plays the world of a seed with a timeline. Its course, and so its hash,
// is the same as without.
func (p Protocol) Replay(seed uint64) (*World, error) {
	w := NewWorld(seed)
	w.timeline = &Timeline{Title: fmt.Sprintf("%s, seed %d", p.Name, seed)}
	err := p.play(w)
	if err != nil && !w.timeline.has(Violation) {
		w.Mark(Violation, "", "%v", err)
	}
	w.timeline.end = w.now
	return w, err
}

// play plays a world; a panic is a violation, too.
func (p Protocol) play(w *World) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v, in %s", r, panicked())
		}
	}()
	return p.Play(w)
}

// panicked names the functions that a panic is on its way through, innermost first.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var names []string
	for more, in := true, false; more && len(names) < 6; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasSuffix(f.Function, "sim.Protocol.play") {
			break
		}
		if in && !strings.HasPrefix(f.Function, "runtime.") {
			names = append(names, fmt.Sprintf("%s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], f.Line))
		}
		in = in || f.Function == "runtime.gopanic"
	}
	return strings.Join(names, " < ")
}
