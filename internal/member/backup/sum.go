package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// sectorBytes divides the size of every database; a file whose size leaves the length of a sum ends with one.
const sectorBytes = 512

// Sum is the checksum behind the database in a file that came over the API.
type Sum [sha256.Size]byte

// ErrNoSum: a file has no checksum, so that nobody can tell whether it is whole.
var ErrNoSum = errors.New("the file has no checksum: it was not saved by `snapshot save`, or its end is missing")

// ErrSum: a file is not what was saved.
var ErrSum = errors.New("the file's checksum does not match: it was damaged or cut short since it was saved; take another copy")

// CheckSum reads the whole file and compares it with the checksum at its end. It returns ErrNoSum and ErrSum.
func CheckSum(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	body := info.Size() - sha256.Size
	if body < 0 || info.Size()%sectorBytes != sha256.Size {
		return fmt.Errorf("%s: %w", path, ErrNoSum)
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, body); err != nil {
		return err
	}
	var want Sum
	if _, err := io.ReadFull(f, want[:]); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), want[:]) {
		return fmt.Errorf("%s: %w", path, ErrSum)
	}
	return nil
}
