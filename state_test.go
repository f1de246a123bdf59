package tenure_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// Programs read what tenure lease list -o json prints: the names in it stay.
func TestStatesInJSON(t *testing.T) {
	s := tenure.State{Name: "n", Waiting: 3, Holders: []tenure.Holding{{Holder: "h", Token: 1 << 60, Slots: 2, Until: time.Unix(1, 0).UTC()}}}
	got, err := json.Marshal(s)
	const want = `{"name":"n","holders":[{"holder":"h","token":1152921504606846976,"slots":2,"until":"1970-01-01T00:00:01Z"}],"waiting":3}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
