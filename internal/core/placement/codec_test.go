package placement

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestCodec(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 1000 {
		want := randomConfiguration(t, rnd)
		data := want.Encode()
		got, err := Decode(data)
		if err != nil || !got.Equal(want) {
			t.Fatalf("%s came back as %v, %v", want.Format(nil), got, err)
		}
		for _, key := range probes {
			if got.Holders(key) != want.Holders(key) {
				t.Fatalf("%s came back with other holders of %q", want.Format(nil), key)
			}
		}
		for n := range data {
			if _, err := Decode(data[:n]); !errors.Is(err, ErrConfiguration) {
				t.Fatalf("%d of %d bytes: %v, want an ErrConfiguration", n, len(data), err)
			}
		}
	}
}

func TestDecodeNamesTheFault(t *testing.T) {
	for _, test := range []struct {
		data string
		want string
	}{
		{"", "ends, or is damaged, at the format"},
		{"\x02", "format 2 is not known here"},
		{"\x01\x00\x01\x00\x00", "0 members"},
		{"\x01\x7f", "the number of members is 127, at most 64"},
		{"\x01\x20\x01", "32 members cannot be in the 1 bytes that are left"},
		{"\x01\x01\x01\x00\x00\x00", "nobody holds the default"},
		{"\x01\x01\x01\x02\x00\x00", "holders 10 of the default are more than the 1 members"},
		{"\x01\x02\x01\x00\x01\x00\x00", "1 comes after 1"},
		{"\x01\x01\x01\x01\x00\x00\x00", "1 bytes too many"},
		{"\x01\x01\x81\x00\x01\x00\x00", "not written in its shortest form"},
		{"\x01\x01\x01\x01\x02\x01b\x00\x01\x01b\x00\x01\x00", "have keys in common"},
		{"\x01\x01\x01\x01\x01\x01b\x02b\x00\x01\x00", "not in the one form"},
		{"\x01\x02\x01\x01\x01\x00\x02\x02\x02", "not in the one form"},
		{"\x01\x02\x01\x01\x01\x00\x03\x02\x02\x03\x00", "a run of buckets is 3, at most 2"},
		{"\x01\x02\x01\x01\x01\x00\x03\x00\x02", "a run of no buckets"},
		{"\x01\x02\x01\x01\x01\x00\x13\x00\x02", "the number of buckets is 19, at most 17"},
	} {
		_, err := Decode([]byte(test.data))
		if !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want it to say %q", test.data, err, test.want)
		}
	}
}

// TestSizes holds Encode to its word.
func TestSizes(t *testing.T) {
	if got := len(must(t)(leaderOnly([]machine.NodeID{1, 2, 3, 4, 5}, 2)).Encode()); got > 10 {
		t.Errorf("five members and one holder take %d bytes", got)
	}
	buckets := make([]Set, MaxBuckets)
	rnd := rand.New(rand.NewPCG(6, 6))
	for i := range buckets {
		buckets[i] = Set(1 + rnd.IntN(31))
		for i > 0 && buckets[i] == buckets[i-1] {
			buckets[i] = Set(1 + rnd.IntN(31))
		}
	}
	c := must(t)(New([]machine.NodeID{1, 2, 3, 4, 5}, 1, nil, buckets))
	if got := len(c.Encode()); got > 128<<10+20 {
		t.Errorf("65,536 buckets of five members take %d bytes", got)
	}
	var cells []Cell
	key := bytes.Repeat([]byte{'k'}, 100)
	for i := range maxCells {
		cells = append(cells, Cell{append(bytes.Clone(key[:98]), byte(i>>8), byte(i)), nil, 1})
	}
	c = must(t)(New([]machine.NodeID{1, 2, 3, 4, 5}, 1, cells, buckets))
	if got := len(c.Encode()); got > 1<<20 {
		t.Errorf("as many cells with keys of 100 bytes as there may be take %d bytes", got)
	}
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		f.Add(randomConfiguration(f, rnd).Encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrConfiguration) {
				t.Fatal(err)
			}
			return
		}
		if again := c.Encode(); !bytes.Equal(again, data) {
			t.Fatalf("%x was read, %x written", data, again)
		}
		for _, key := range probes {
			if s := c.Holders(key); s == 0 || s&^first(len(c.members)) != 0 {
				t.Fatalf("%q is held by %b", key, s)
			}
		}
		c.HoldersOfRange([]byte("a"), []byte("i"))
		if _, err := c.Rebase(c.members, c.members[0]); err != nil {
			t.Fatal(err)
		}
	})
}

func someCounts() Counts {
	c := NewCounter(16)
	for i := range 40 {
		c.Read([]byte{byte('a' + i%3)})
		c.Write(machine.NodeID(7+i%2), []byte("k"), []byte{'l', byte(i % 5)})
		c.ReadRange([]byte("r"), []byte("s"))
	}
	return c.Take()
}

func TestCountsCodec(t *testing.T) {
	want := someCounts()
	data := want.Encode()
	got, err := DecodeCounts(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Encode(), data) || !reflect.DeepEqual(got.Reads, want.Reads) || len(got.Spans) != len(want.Spans) || len(got.Pairs) != len(want.Pairs) {
		t.Errorf("%+v came back as %+v", want, got)
	}
	for n := range data {
		if _, err := DecodeCounts(data[:n]); !errors.Is(err, errCounts) {
			t.Fatalf("%d of %d bytes: %v, want an ErrCounts", n, len(data), err)
		}
	}
	for data, want := range map[string]string{
		"\x01\x00":                                           "no buckets",
		"\x01\x13":                                           "the number of buckets is 19",
		"\x01\x01\x02\x05\x00":                               "origin 1 of them comes twice",
		"\x01\x01\x00\x01\x01\x01\x00\x00":                   "a bucket is 1, at most 0",
		"\x01\x02\x00\x01\x00\x00\x00\x00":                   "nothing in bucket 0",
		"\x01\x01\x00\x00\x01\x00\x00\x01\x00":               `"" to "" is no range`,
		"\x01\x01\x00\x00\x02\x01b\x00\x01\x01a\x00\x01\x00": `"a" comes after "b"`,
		"\x01\x01\x00\x00\x00\x01\x01b\x01b":                 `the pair of "b" and "b"`,
		"\x01\x01\x00\x00\x00\x00\x00":                       "1 bytes too many",

		"\x02":             "format 2 is not known here",
		"\x01\x12":         "the number of buckets is 18, at most 17",
		"\x01\x01\x01\x00": "origin 0 of them comes twice, or is no member",
		"\x01\x01\x41":     "the number of origins is 65, at most 64",
		"\x01\x01\x00\x01\x00\x80\x80\x80\x80\x10\x00\x00":                  "a number of operations is 4294967296, at most 4294967295",
		"\x01\x01\x00\x00\x02\x01b\x00\x01\x01b\x00\x01\x00":                `"b" comes after "b"`,
		"\x01\x01\x00\x00\x01\x01b\x00\x80\x80\x80\x80\x10\x00":             "a number of reads is 4294967296, at most 4294967295",
		"\x01\x01\x01\x07\x00\x00\x01\x01b\x00\x00\x80\x80\x80\x80\x10\x00": "a number of writes is 4294967296, at most 4294967295",
		"\x01\x01\x00\x00\x01\x81\x08":                                      "the number of bytes of a key is 1025, at most 1024",
		"\x01\x01\x00\x00\x01\x01b\x81\x08":                                 "the number of bytes of an end is 1025, at most 1024",
		"\x01\x01\x00\x00\xc1\x24":                                          "the number of keys and ranges is 4673, at most 4672",
		"\x01\x01\x00\x00\x00\x02\x01a\x01b\x01a\x01b":                      `the pair of "a" and "b" is not in its place`,
		"\x01\x01\x00\x00\x00\x02\x01a\x01c\x01a\x01b":                      `the pair of "a" and "b" is not in its place`,
		"\x01\x01\x00\x00\x00\x01\x81\x08":                                  "the number of bytes of a key is 1025, at most 1024",
		"\x01\x01\x00\x00\x00\x81\x01":                                      "the number of pairs is 129, at most 128",
	} {
		if _, err := DecodeCounts([]byte(data)); !errors.Is(err, errCounts) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", data, err, want)
		}
	}
}

func FuzzDecodeCounts(f *testing.F) {
	f.Add(someCounts().Encode())
	f.Add(NewCounter(1).Take().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCounts(data)
		if err != nil {
			if !errors.Is(err, errCounts) {
				t.Fatal(err)
			}
			return
		}
		if again := c.Encode(); !bytes.Equal(again, data) {
			t.Fatalf("%x was read, %x written", data, again)
		}
		p, err := NewPlanner(Settings{Policy: Cost, Members: wide, Leader: 2, Buckets: c.Buckets}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Observe(1, c); err != nil {
			t.Fatal(err)
		}
		next, _ := p.Plan(seconds(10))
		if _, err := Decode(next.Encode()); err != nil {
			t.Fatal(err)
		}
	})
}
