package address

import (
	"slices"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		list string
		want []string
		err  string // a part of it
	}{
		{list: "a.example", want: []string{"a.example:7000"}},
		{list: "a.example:1,10.0.0.1,b:65535", want: []string{"a.example:1", "10.0.0.1:7000", "b:65535"}},
		{list: "[::1]:80,[::2]", want: []string{"[::1]:80", "[::2]:7000"}},
		{list: "::3", want: []string{"[::3]:7000"}},
		{list: "", err: "an address is empty"},
		{list: "a,,b", err: "an address is empty"},
		{list: "a,", err: "an address is empty"},
		{list: "a/b", err: `address "a/b" has more than a host and a port`},
		{list: "a,user@b:1", err: `address "user@b:1" has more than a host and a port`},
		{list: "a:0", err: `"0" is not a port`},
		{list: "a:65536", err: `"65536" is not a port`},
		{list: "a:-1", err: `"-1" is not a port`},
		{list: "a:http", err: `"http" is not a port`},
		{list: "a:", err: `"" is not a port`},
	} {
		got, err := Hosts(tt.list, "7000")
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %v, want an error with %q", tt.list, err, tt.err)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q is read as %q, want %q", tt.list, got, tt.want)
		}
	}
}
