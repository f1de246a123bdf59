package fleaseworld

import (
	"errors"
	"strings"

	"github.com/tenure-lease/tenure"
)

// words judges what an error says.
func (j *judge) words(err error) {
	if err == nil {
		return
	}
	said := err.Error()
	for _, bad := range []string{"lease lost: lease lost", "use of closed network connection", "set tcp", "set unix", ": EOF", "%!"} {
		if strings.Contains(said, bad) {
			j.w.Fail("words: %q", said)
		}
	}
	if errors.Is(err, tenure.ErrLost) && strings.Contains(said, "open a new one") {
		j.w.Fail("words: %q", said)
	}
}
