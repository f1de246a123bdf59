package auth

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"go.etcd.io/etcd/api/v3/authpb"
)

func someState(t *testing.T) *stage {
	return inForce(t, grant("r", both, "a", "c"), grant("r", reads, "a", ""), addRole("q"), grantRole("ann", "q"), grantRole("ann", "root"),
		&pb.AuthUserAddRequest{Name: "cert", Options: &authpb.UserAddOptions{NoPassword: true}}, grantRole("cert", "r"), grant("q", writes, "x", "\x00"))
}

func TestEncode(t *testing.T) {
	s := someState(t)
	s.do(disable(), enable())
	read, err := Decode(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if string(read.Encode()) != string(s.Encode()) {
		t.Error("the state is another one when it was read")
	}
	back := &stage{read, t}
	back.wants(back.as("cert"), put("b"), nil)
	back.wants(back.as("cert"), put("x"), ErrDenied)
	if _, _, err := back.Hash("cert"); !errors.Is(err, ErrNoPassword) {
		t.Errorf("a user without a password: got %v, want %v", err, ErrNoPassword)
	}
	if got, _, _ := back.Hash("ann"); string(got) != "#ann" {
		t.Errorf("the hash of ann: got %q", got)
	}
	for _, name := range []string{"ann", "root"} {
		_, was := s.Recognize(name, s.Revision()-1)
		if _, err := back.Recognize(name, back.Revision()-1); err != was {
			t.Errorf("%s before users were switched off: got %v, want %v", name, err, was)
		}
	}
	if empty, err := Decode(New().Encode()); err != nil || empty.Used() || empty.Revision() != 1 {
		t.Errorf("no users: got %+v, %v", empty, err)
	}
}

// The bytes on disk are the same in all versions.
func TestEncodingStays(t *testing.T) {
	s := newStage(t)
	s.do(addUser("u"), addRole("r"), grant("r", writes, "k", "l"), grantRole("u", "r"))
	want := "\x01\x00\x05\x00\x01\x01r\x01\x01\x01k\x01l\x01\x01u\x00\x02#u\x02\x01\x01r"
	if got := string(s.Encode()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := string(someState(t).Encode())
	for n := range len(whole) {
		if _, err := Decode([]byte(whole[:n])); !errors.Is(err, errCorrupt) {
			t.Fatalf("%d bytes of %d: got %v, want %v", n, len(whole), err, errCorrupt)
		}
	}
	for name, p := range map[string]string{
		"more behind the end":        whole + "\x00",
		"another version":            "\x02" + whole[1:],
		"a flag that is none":        "\x01\x02\x05\x00\x00\x00",
		"revision 0":                 "\x01\x00\x00\x00\x00\x00",
		"switched off in the future": "\x01\x00\x05\x06\x00\x00",
		"in force without root":      "\x01\x01\x05\x00\x00\x00",
		"root without its role":      "\x01\x01\x05\x00\x00\x01\x04root\x00\x00\x02\x00",
		"a role without a name":      "\x01\x00\x05\x00\x01\x00\x00\x00",
		"roles out of order":         "\x01\x00\x05\x00\x02\x01b\x00\x01a\x00\x00",
		"a role twice":               "\x01\x00\x05\x00\x02\x01b\x00\x01b\x00\x00",
		"a permission of no type":    "\x01\x00\x05\x00\x01\x01r\x01\x03\x01k\x00\x00",
		"a permission of no key":     "\x01\x00\x05\x00\x01\x01r\x01\x01\x00\x00\x00",
		"permissions out of order":   "\x01\x00\x05\x00\x01\x01r\x02\x01\x01k\x00\x01\x01j\x00\x00",
		"a permission twice":         "\x01\x00\x05\x00\x01\x01r\x02\x01\x01k\x00\x00\x01k\x00\x00",
		"a user without a name":      "\x01\x00\x05\x00\x00\x01\x00\x00\x00\x02\x00",
		"users out of order":         "\x01\x00\x05\x00\x00\x02\x01b\x00\x00\x02\x00\x01a\x00\x00\x02\x00",
		"a user twice":               "\x01\x00\x05\x00\x00\x02\x01b\x00\x00\x02\x00\x01b\x00\x00\x02\x00",
		"a user of the future":       "\x01\x00\x05\x00\x00\x01\x01b\x00\x00\x06\x00",
		"a role that there is not":   "\x01\x00\x05\x00\x00\x01\x01b\x00\x00\x02\x01\x01r",
		"a user's roles twice":       "\x01\x00\x05\x00\x01\x01r\x00\x01\x01b\x00\x00\x02\x02\x01r\x01r",
	} {
		if _, err := Decode([]byte(p)); !errors.Is(err, errCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, errCorrupt)
		}
	}
}

// A state that is larger than Apply lets one grow is refused.
func TestDecodeRefusesWhatIsTooLarge(t *testing.T) {
	for bytes, ok := range map[int]bool{MaxTotalBytes: true, MaxTotalBytes + 1: false} {
		s := New()
		s.users = []*user{{name: "u", hash: make([]byte, bytes-itemOverhead-1)}}
		if _, err := Decode(s.Encode()); (err == nil) != ok {
			t.Errorf("a state of %d bytes: %v", bytes, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(New().Encode())
	f.Add([]byte("\x01\x00\x05\x00\x01\x01r\x01\x01\x01k\x01l\x01\x01u\x00\x02#u\x02\x01\x01r"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, err := Decode(p); err == nil {
			if again, err := Decode(s.Encode()); err != nil || string(again.Encode()) != string(s.Encode()) {
				t.Errorf("read once, and not twice: %v", err)
			}
		}
	})
}
