package file

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

var sample = record{
	handle: machine.ID{1}, slot: 5, gen: 77, writer: machine.ID{2}, name: "nightly", floor: 41,
	version: machine.Version{Seq: 42, Writer: machine.ID{3}}, data: []byte("data"), noteSeq: 9, note: []byte("note"),
}

func TestRecord(t *testing.T) {
	for _, want := range []record{sample, {}, {name: "only a name"}} {
		b := make([]byte, block)
		want.encode(b)
		got, err := decodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got, cmp.AllowUnexported(record{})); diff != "" {
			t.Error(diff)
		}
	}
}

// No bit of a block can be flipped unnoticed, nor any piece of it be of an earlier write.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	b, old := make([]byte, block), make([]byte, block)
	sample.encode(b)
	earlier := sample
	earlier.gen--
	earlier.data = []byte("DATA")
	earlier.encode(old)
	for i := range 8 * block {
		b[i/8] ^= 1 << (i % 8)
		if _, err := decodeRecord(b); err == nil {
			t.Fatalf("bit %d can be flipped", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for cut := range 120 {
		torn := append(append([]byte(nil), b[:cut]...), old[cut:]...)
		if bytes.Equal(torn, b) || bytes.Equal(torn, old) {
			continue
		}
		if _, err := decodeRecord(torn); err == nil {
			t.Errorf("torn at byte %d it can be read", cut)
		}
	}
}

func TestHandleHeader(t *testing.T) {
	want := handleHeader{id: machine.ID{1}, set: machine.ID{2}, slots: 16, holder: "someone at host"}
	b := make([]byte, block)
	want.encode(b)
	if got, err := decodeHandle(b); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	b[body+3]++
	seal(b, magicHandle)
	if _, err := decodeHandle(b); !errors.Is(err, register.ErrNewer) {
		t.Errorf("a newer format: %v, want ErrNewer", err)
	}
	long := handleHeader{slots: 8, holder: string(make([]byte, 5000))}
	long.encode(b)
	if got, err := decodeHandle(b); err != nil || len(got.holder) != maxHolder {
		t.Errorf("a long holder: %d bytes, %v, want %d", len(got.holder), err, maxHolder)
	}
}

// FuzzRecord seals arbitrary contents, so that they get past the checksum.
func FuzzRecord(f *testing.F) {
	b := make([]byte, block)
	sample.encode(b)
	f.Add(b[body:160])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, content []byte) {
		b := make([]byte, block)
		copy(b[body:], content)
		decodeHandle(b)
		decodeHeader(b)
		for _, magic := range []string{magicRecord, magicHandle, magicStore, magicClaim} {
			seal(b, magic)
			if r, err := decodeRecord(b); err == nil {
				again := make([]byte, block)
				r.encode(again)
				if !bytes.Equal(again, b) {
					t.Errorf("%+v is encoded in two ways", r)
				}
			}
			if h, err := decodeHandle(b); err == nil && (h.slots < 1 || h.slots > mostSlots) {
				t.Errorf("a handle of %d slots", h.slots)
			}
			if h, err := decodeHeader(b); err == nil && h.check() != nil {
				t.Errorf("a header that makes no sense: %+v", h)
			}
			if c, err := decodeClaim(b); err == nil {
				again := make([]byte, block)
				c.encode(again)
				if !bytes.Equal(again, b) {
					t.Errorf("%+v is encoded in two ways", c)
				}
			}
		}
	})
}
