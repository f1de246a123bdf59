package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

type inner struct {
	URLs []string          `json:"urls"`
	Of   map[string][]int  `json:"of"`
	None []string          `json:"none,omitempty"`
	More map[string]string `json:"more,omitempty"`
}

type outer struct {
	inner
	Payload []byte          `json:"payload"`
	All     []inner         `json:"all"`
	One     *inner          `json:"one"`
	Nobody  *inner          `json:"nobody"`
	Any     any             `json:"any"`
	Raw     json.RawMessage `json:"raw"`
	Two     [1][]int        `json:"two"`
	At      time.Time       `json:"at"`
	hidden  []int
}

// A list of JSON that has nothing in it is empty and not null, wherever it is, and the value that is printed stays as it was.
func TestListsAreNeverNull(t *testing.T) {
	const (
		empty = `{"urls":[],"of":{}}`
		want  = `{"urls":[],"of":{},"payload":"","all":[` + empty + `],"one":` + empty + `,"nobody":null,"any":[[]],"raw":null,"two":[[]],"at":"0001-01-01T00:00:00Z"}` + "\n"
	)
	v := outer{All: []inner{{}}, One: &inner{}, Any: [][]int{nil}}
	var line, indented bytes.Buffer
	if err := Line(&line, v); err != nil || line.String() != want {
		t.Errorf("prints %s, %v; want %s", line.String(), err, want)
	}
	var o Output = "json"
	if err := o.Print(&indented, v, nil); err != nil {
		t.Fatal(err)
	}
	var same bytes.Buffer
	if err := json.Compact(&same, indented.Bytes()); err != nil || same.String()+"\n" != want {
		t.Errorf("prints %s, %v, indented; want %s", same.String(), err, want)
	}
	if v.All[0].URLs != nil || v.One.Of != nil || v.Any.([][]int)[0] != nil || v.hidden != nil {
		t.Errorf("what is printed is changed: %+v", v)
	}
	for _, tt := range []struct {
		v    any
		want string
	}{
		{[]string(nil), "[]\n"}, {map[int][]string{1: nil}, `{"1":[]}` + "\n"}, {nil, "null\n"}, {inner{URLs: []string{"a"}, None: []string{"b"}, Of: map[string][]int{"c": {1}}}, `{"urls":["a"],"of":{"c":[1]},"none":["b"]}` + "\n"},
	} {
		line.Reset()
		if err := Line(&line, tt.v); err != nil || line.String() != tt.want {
			t.Errorf("%#v is %s, %v; want %s", tt.v, line.String(), err, tt.want)
		}
	}
}
