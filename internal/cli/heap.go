package cli

import "os"

// HeapFloorBytes is how much may be allocated between two garbage collections
// however little is alive.
const HeapFloorBytes = 128 << 20

// HeapFloor keeps a small server from collecting all the time: Go waits until
// the heap has doubled, and this allocation, which never becomes memory because
// nothing touches it, counts as part of it. An operator's own GOGC is respected.
func HeapFloor() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, HeapFloorBytes)
}
