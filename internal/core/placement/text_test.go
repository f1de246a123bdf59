package placement

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"prefix:/jp/=JP,CA,OR; default=CA,VA,IRL": "prefix:/jp/=JP,CA,OR; default=CA,VA,IRL",
		" default = * ":                                     "default=JP,CA,OR,VA,IRL",
		"default=CA;;key:a=CA,JP;":                          "key:a=JP,CA; default=CA",
		"range:b..c=JP; range:c..=VA; default=CA":           "prefix:b=JP; range:c..=VA; default=CA",
		"range:b..cc=JP; default=CA":                        "range:b..cc=JP; default=CA",
		`prefix:"a=b; c"=JP; default=CA`:                    `prefix:"a=b; c"=JP; default=CA`,
		`key:"\x00\xff"=JP; default=CA`:                     `key:"\x00\xff"=JP; default=CA`,
		`range:"a..b".."c"=JP; default=CA`:                  `range:"a..b"..c=JP; default=CA`,
		`prefix:"\xff\xff"=JP; default=CA`:                  `range:"\xff\xff"..=JP; default=CA`,
		`prefix:/a"b=JP; default=CA;`:                       "",
		"hash:0/2=CA,JP,OR; hash:1/2=CA,VA,IRL; default=CA": "hash:0/2=JP,CA,OR; hash:1/2=CA,VA,IRL; default=CA",
		"hash:1/2=JP; hash:0/4=VA; default=CA":              "hash:0/4=VA; hash:1/4=JP; hash:3/4=JP; default=CA",
		"hash:0/1=VA; default=CA":                           "default=VA",
	} {
		c, err := Parse(text, wide)
		if want == "" {
			if !errors.Is(err, ErrConfiguration) {
				t.Errorf("%q: got %v, want an ErrConfiguration", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Format(wide); got != want {
			t.Errorf("%q reads as %q, want %q", text, got, want)
		}
	}
}

func TestParseNamesTheFault(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        "name the holders of everything else: default=…",
		"key:a=JP":                                "name the holders of everything else: default=…",
		"default=CA; default=JP":                  `"default=JP": default is given twice`,
		"default=CA; key:a=JP,MARS":               `"key:a=JP,MARS": no member is called "MARS"`,
		"default=":                                `"default=": no member is called ""`,
		"default=CA; key:a":                       `"key:a": write it as SELECTOR=NAME,NAME`,
		"default=CA; key:a=b=JP":                  `"key:a=b=JP": write it as SELECTOR=NAME,NAME`,
		"default=CA; key:=JP":                     `"key:=JP": name a key: for all keys there is default`,
		"default=CA; city:a=JP":                   `"city:a=JP": no selector begins like that`,
		"default=CA; a=JP":                        `"a=JP": name a key`,
		"default=CA; range:b..a=JP":               `"range:b..a=JP": a range ends after it begins`,
		"default=CA; range:b=JP":                  `"range:b=JP": write a range as range:FROM..TO`,
		"default=CA; key:a..b=JP":                 `"key:a..b=JP": what is "..b" after the key? Put keys with dots in quotes`,
		`default=CA; key:"a\q"=JP`:                "the quotes around a key are not those of a Go string",
		"default=CA; prefix:/a=JP; key:/ab=":      `"key:/ab=": no member is called ""`,
		"default=CA; prefix:/a=JP; key:/ab=JP":    `"key:/ab=JP": it has keys in common with prefix:/a`,
		"default=CA; range:a..c=JP; range:b..=VA": `"range:b..=VA": it has keys in common with range:a..c`,
		`default=CA; key:"a"b=JP`:                 `"key:\"a\"b=JP": what is "b" after the key?`,
		`default=CA; prefix:"a"b=JP`:              `"prefix:\"a\"b=JP": what is "b" after the key?`,
		"default=CA; prefix:a..=JP":               `"prefix:a..=JP": what is ".." after the key?`,
		"default=CA; range:..b=JP":                `"range:..b=JP": name a key`,
		"default=CA; range:a..a=JP":               `"range:a..a=JP": a range ends after it begins`,
		`default=CA; range:a.."b"c=JP`:            `"range:a..\"b\"c=JP": a range ends after it begins`,
		"default=CA; range:a..b..c=JP":            `"range:a..b..c=JP": a range ends after it begins`,
		`default=CA; range:a.."b=JP`:              "write it as SELECTOR=NAME,NAME",
		`default=CA; range:a.."\q"=JP`:            "the quotes around a key are not those of a Go string",
		"default=CA; hash:2/2=JP":                 `"hash:2/2=JP": write it as hash:I/N`,
		"default=CA; hash:-1/2=JP":                `"hash:-1/2=JP": write it as hash:I/N`,
		"default=CA; hash:0/0=JP":                 `"hash:0/0=JP": write it as hash:I/N`,
		"default=CA; hash:0/131072=JP":            `"hash:0/131072=JP": write it as hash:I/N`,
		"default=CA; hash:0=JP":                   `"hash:0=JP": write it as hash:I/N`,
		"default=CA; hash:x/2=JP":                 `"hash:x/2=JP": write it as hash:I/N`,
		"default=CA; hash:0/3=JP":                 `"hash:0/3=JP": write it as hash:I/N`,
		"default=CA; hash:0/2=JP; hash:2/4=VA":    `"hash:2/4=VA": bucket 2 of 4 has holders already`,
	} {
		_, err := Parse(text, wide)
		if !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestParseWithTwins(t *testing.T) {
	twins := []Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "a"}}
	if _, err := Parse("default=b", twins); err != nil {
		t.Errorf("a name that is unique: %v", err)
	}
	if _, err := Parse("default=a", twins); !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), `two members are called "a"`) {
		t.Errorf("got %v, want it to say that two are called a", err)
	}
}

// TestTextIsComplete: what is formatted reads back as what it was.
func TestTextIsComplete(t *testing.T) {
	members := []Member{{ID: 30, Name: "c"}, {ID: 10, Name: "a"}, {ID: 20, Name: "b"}}
	rnd := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		want := randomConfiguration(t, rnd)
		text := want.Format(members)
		got, err := Parse(text, members)
		if err != nil || !got.Equal(want) {
			t.Fatalf("%q reads back as %v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("prefix:/jp/=JP,CA,OR; default=CA,VA,IRL")
	f.Add(`range:"a".."b"=*;hash:0/2=JP;default=CA`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text, wide)
		if err != nil {
			if !errors.Is(err, ErrConfiguration) {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(c.Format(wide), wide)
		if err != nil || !again.Equal(c) {
			t.Fatalf("%q became %q, which reads as %v, %v", text, c.Format(wide), again, err)
		}
	})
}

// TestNamesOfMembers: members are called by their names, and without one by their numbers.
func TestNamesOfMembers(t *testing.T) {
	c := must(t)(New([]machine.NodeID{7, 8, 9}, 7, []Cell{{Key: []byte("k"), Holders: 4}}, []Set{0, 2}))
	got := c.Format([]Member{{ID: 7, Name: "a"}, {ID: 8}})
	if want := "key:k=9; hash:1/2=8; default=a,8,9"; got != want {
		t.Errorf("members of which one has a name are written as %q, want %q", got, want)
	}
}
