package torture

import (
	"strings"
	"testing"
	"time"
)

// TestGuardians shows the judge guardians that lie.
func TestGuardians(t *testing.T) {
	deadline := eventLine{Event: "acquired", Deadline: time.Unix(2, 0)}
	renewed := eventLine{Event: "renewed", Deadline: time.Unix(3, 0)}
	whole := []line{{what: begin, at: time.Second}, {what: beat, at: 1900 * ms}, {what: end, at: 1950 * ms}}
	cut := whole[:2]
	long := []line{{what: begin, at: time.Second}, {what: beat, at: 2100 * ms}}
	for _, c := range []struct {
		name  string
		code  int
		says  []eventLine
		lines []line
		want  string
	}{
		{"ran to its end", 0, []eventLine{deadline}, whole, ""},
		{"was stopped", exitLost, []eventLine{deadline}, cut, ""},
		{"was not run", exitUnavailable, nil, nil, ""},
		{"was renewed", exitLost, []eventLine{deadline, renewed}, long, ""},
		{"did not end", 0, []eventLine{deadline}, cut, "had not ended"},
		{"ran on", exitLost, []eventLine{deadline}, long, "beyond the deadline"},
		{"ran without a lease", exitNotAcquired, nil, whole, "after its command had run"},
		{"failed", 1, []eventLine{deadline}, whole, "exited with 1"},
	} {
		h := history{commands: map[int]bool{}}
		err := (&guarded{pid: 1, command: 2, code: c.code, lines: c.says}).judge(&h, c.lines, 0)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}
