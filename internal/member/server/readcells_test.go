package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// The holders of keys are shown as they were set, and can be set again as they are shown.
func TestCellsAreTold(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.API.ReadLeaseChanges = etcdapi.ChangeOrder })
	client := readLeases(t, endpoints[0])
	cells := func(asked bool) []string {
		got, err := client.Get(t.Context(), &readleasepb.GetRequest{Cells: asked})
		if err != nil {
			t.Fatal(err)
		}
		return got.Cells
	}
	if got := cells(true); got != nil {
		t.Errorf("nothing is divided, but told is %q", got)
	}
	until(t, "the member has told its name", func() bool { return servers[0].Node.Members()[0].Name != "" })
	want := []string{`prefix:"/a; b"=m0`, "key:/motd=m0", "default=m0"}
	text := `default = *; prefix:"/a; b" = m0; key:/motd = *`
	for range 2 {
		if _, err := client.Set(t.Context(), &readleasepb.SetRequest{Policy: "static/key", Cells: text}); err != nil {
			t.Fatal(err)
		}
		if got := cells(true); !slices.Equal(got, want) {
			t.Errorf("after %q: got %q, want %q", text, got, want)
		}
		text = strings.Join(want, ";\n")
	}
	if got := cells(false); got != nil {
		t.Errorf("not asked for: %q", got)
	}
}

// A holder is shown with the keys that the configuration gives it.
func TestHolds(t *testing.T) {
	members := []placement.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}}
	for _, tt := range []struct {
		text    string
		partial bool
		keys    string // of member 2
	}{
		{"default = *", false, ""},
		{"default = a", true, ""},
		{"default = b", false, ""},
		{"default = a; range:k..n = b; key:x = b", true, "k-n x-x\x00"},
		{"default = b; range:k..n = a; key:x = a", true, "\x00-k n-x x\x00-\x00"},
		{"default = b; range:k..n = a; range:n..p = a", true, "\x00-k p-\x00"},
		{"default = a; range:k..n = b; range:n..p = b", true, "k-p"},
		{"default = a; range:k.. = b", true, "k-\x00"},
		{"default = b; range:k.. = a", true, "\x00-k"},
		{"default = b; hash:0/2 = a", true, ""},
		{"default = a; hash:0/2 = b; key:k = b", true, "k-k\x00"},
		{"default = b; hash:0/2 = b; hash:1/2 = b", false, ""},
		{"default = b; hash:0/4 = b; key:k = a", true, "\x00-k k\x00-\x00"}, // parts that are not named are the default's
		{"default = b; hash:0/2 = b; key:k = a", true, "\x00-k k\x00-\x00"},
		{"default = b; hash:0/2 = a,b; key:k = a", true, "\x00-k k\x00-\x00"},
	} {
		conf, err := placement.Parse(tt.text, members)
		if err != nil {
			t.Fatal(err)
		}
		h := etcdapi.ReadLeaseHolder{Member: 2}
		holds(&h, conf)
		var got []string
		for _, k := range h.Keys {
			got = append(got, fmt.Sprintf("%s-%s", k.Key, k.End))
		}
		if strings.Join(got, " ") != tt.keys || h.Partial != tt.partial {
			t.Errorf("%s: got %q, partial %v, want %q, partial %v", tt.text, got, h.Partial, tt.keys, tt.partial)
		}
		for _, key := range []string{"a", "k", "kk", "n", "x", "xx"} {
			want := conf.Holders([]byte(key)).Has(1)
			if got := covers(h, key, ""); got != want {
				t.Errorf("%s: that it holds %s is said to be %v", tt.text, key, got)
			}
		}
	}
	for text, held := range map[string][]string{
		"default = a; range:k..n = b; range:n..p = b": {"k-n", "k-p", "l-o"},
		"default = b; key:l = a":                      {"a-l", "m-z"},
		"default = b; hash:0/2 = a":                   nil,
	} {
		conf, err := placement.Parse(text, members)
		if err != nil {
			t.Fatal(err)
		}
		h := etcdapi.ReadLeaseHolder{Member: 2}
		holds(&h, conf)
		for _, r := range []string{"a-l", "k-n", "k-p", "l-o", "k-q", "j-n", "m-z", "a-\x00"} {
			from, end, _ := strings.Cut(r, "-")
			want := slices.Contains(held, r)
			if got := covers(h, from, end); got != want {
				t.Errorf("%s: that it holds all of %q is said to be %v", text, r, got)
			}
		}
	}
	h := etcdapi.ReadLeaseHolder{Member: 4}
	conf, _ := placement.Parse("default = *", members)
	if holds(&h, conf); !h.Partial || covers(h, "a", "") {
		t.Error("a member that is in no configuration is said to hold keys")
	}
	h = etcdapi.ReadLeaseHolder{Member: 1}
	conf, _ = placement.Parse("default = b; key:k = a", members)
	if holds(&h, conf); !h.Partial || !covers(h, "k", "") || covers(h, "l", "") || len(h.Keys) != 1 {
		t.Errorf("the first member of a configuration, which holds one key, is said to hold %+v", h)
	}
	h = etcdapi.ReadLeaseHolder{Member: 1}
	conf, _ = placement.Parse("default = a", members)
	if holds(&h, conf); h.Partial || len(h.Keys) > 0 {
		t.Errorf("the first member of a configuration, which holds all keys, is said to hold %+v", h)
	}
	h = etcdapi.ReadLeaseHolder{Member: 1}
	if holds(&h, nil); h.Partial || !covers(h, "k", "") {
		t.Errorf("without a configuration a holder is said to hold %+v, want all keys", h)
	}
}

// covers reports whether a holder is said to hold a key, or all of a range.
func covers(h etcdapi.ReadLeaseHolder, key, end string) bool {
	r := etcdapi.KeyRange{Key: []byte(key)}
	if end != "" {
		r.End = []byte(end)
	}
	return h.Covers == nil || h.Covers(r)
}
