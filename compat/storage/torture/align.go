package torture

import "unsafe"

// alignedSector is a buffer that direct I/O takes.
func alignedSector() []byte {
	b := make([]byte, 2*4096)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & 4095)
	return b[off : off+sector]
}
