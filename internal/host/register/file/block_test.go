package file

import (
	"encoding/hex"
	"errors"
	"testing"
	"unsafe"

	"github.com/tenure-lease/tenure/internal/host/register"
)

var magics = []string{magicStore, magicHandle, magicFarewell, magicRecord, magicClaim}

// A block names its kind, and the checksum covers that and each byte of the content.
func TestTheChecksumCoversAllOfABlock(t *testing.T) {
	for _, magic := range magics {
		b := make([]byte, block)
		for i := range b {
			b[i] = byte(i)
		}
		seal(b, magic)
		content, err := unseal(b, magic)
		if err != nil || len(content) != block-body || content[0] != body || content[len(content)-1] != 0xff {
			t.Fatalf("a sealed block has %d bytes, %v", len(content), err)
		}
		for i := 8; i < block; i++ {
			b[i]++
			if _, err := unseal(b, magic); err != errSum || !errors.Is(err, register.ErrDamaged) {
				t.Fatalf("with another byte %d: %v, want %v", i, err, errSum)
			}
			b[i]--
		}
		for _, other := range magics {
			if other == magic {
				continue
			}
			if _, err := unseal(b, other); err != errMagic {
				t.Errorf("a block that begins with %q is taken for one with %q: %v", magic, other, err)
			}
			changed := append([]byte(other), b[8:]...)
			if _, err := unseal(changed, other); err != errSum {
				t.Errorf("a block that began with %q and now does with %q: %v, want %v", magic, other, err, errSum)
			}
		}
	}
}

// Blocks of an earlier version are read.
func TestBlocksAreWrittenAsEver(t *testing.T) {
	for want, magic := range map[string]string{
		"54656e757265530158eb9142": magicStore, "54656e75726548013c4ee86c": magicHandle, "54656e7572654601fdfda02f": magicFarewell,
		"54656e7572655201ccee90ec": magicRecord, "54656e7572654302e565acf0": magicClaim,
	} {
		b := make([]byte, block)
		copy(b[body:], "nightly")
		seal(b, magic)
		if got := hex.EncodeToString(b[:body]); got != want {
			t.Errorf("a block of %q begins with %s, want %s", magic, got, want)
		}
	}
}

// Behind the fields of a block there is nothing, and none of them reaches beyond it.
func TestFieldsFillTheirBlock(t *testing.T) {
	b := make([]byte, 40)
	w := fields{b: b}
	w.put64(1 << 60)
	w.put32(1 << 30)
	w.put16(1 << 15)
	w.putBytes([]byte("name"))
	if err := w.rest(); err != nil {
		t.Errorf("with room left: %v", err)
	}
	r := fields{b: b}
	if a, b, c, name := r.get64(), r.get32(), r.get16(), string(r.take(4)); a != 1<<60 || b != 1<<30 || c != 1<<15 || name != "name" {
		t.Errorf("read back %#x, %#x, %#x, %q", a, b, c, name)
	}
	if err := r.rest(); err != nil {
		t.Errorf("with zeros behind: %v", err)
	}
	b[39] = 1
	if err := r.rest(); err != errForm || !errors.Is(err, register.ErrDamaged) {
		t.Errorf("with something behind the fields: %v, want %v", err, errForm)
	}
	r.take(22)
	if err := r.rest(); err != nil {
		t.Errorf("with nothing left: %v", err)
	}
	if n := len(r.take(1)); n != 1 || r.rest() != errForm {
		t.Errorf("a field beyond the block has %d bytes, and then %v, want %v", n, r.rest(), errForm)
	}
	short := fields{b: make([]byte, 7)}
	if short.get64(); short.rest() != errForm {
		t.Errorf("a field that the block cuts short: %v, want %v", short.rest(), errForm)
	}
}

// Direct I/O takes buffers only at addresses that are multiples of a block.
func TestBuffersAreAligned(t *testing.T) {
	for n := 1; n < 4*block; n += 611 {
		b := aligned(n)
		if at := uintptr(unsafe.Pointer(&b[0])); at%block != 0 || len(b) != n || cap(b) != n || !allZero(b) {
			t.Errorf("%d bytes at %#x, of %d, want %d zeros at a multiple of %d", len(b), at, cap(b), n, block)
		}
	}
}

func TestOneBitIsNotNothing(t *testing.T) {
	b := make([]byte, 2*block+100)
	if !allZero(b) || !allZero(nil) {
		t.Error("zeros are something")
	}
	for _, i := range []int{0, block - 1, block, 2*block - 1, 2 * block, len(b) - 1} {
		b[i] = 1
		if allZero(b) {
			t.Errorf("byte %d of %d is not seen", i, len(b))
		}
		b[i] = 0
	}
}
