package castworld

import (
	"strings"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// tracer writes a member's log into the trace.
type tracer struct {
	w    *world.World
	name string
}

func (t tracer) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if _, rest, ok := strings.Cut(line, "level="); ok {
		line = rest
	}
	t.w.Trace.Add("%s log %s", t.name, line)
	return len(b), nil
}
