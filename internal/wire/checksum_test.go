package wire

import "testing"

// The sums are on disks and in frames: that of RFC 3720, section B.4, and the check value of
// CRC-32C, whole and in parts.
func TestChecksum(t *testing.T) {
	zeros := make([]byte, 32)
	digits := []byte("123456789")
	for name, c := range map[string]struct{ got, want uint32 }{
		"zeros":           {Checksum(zeros), 0x8a9136aa},
		"digits":          {Checksum(digits), 0xe3069283},
		"digits in parts": {Extend(Checksum(digits[:4]), digits[4:]), 0xe3069283},
		"nothing":         {Checksum(nil), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %08x, want %08x", name, c.got, c.want)
		}
	}
}
