package cli

import "os"

// HeapFloorBytes is how much may be allocated between two garbage collections however little
// is alive. A collection then takes less than a hundredth of a busy server's CPU; four times as
// much gained nothing that could be measured, and was memory of each member.
const HeapFloorBytes = 32 << 20

// HeapFloor keeps a small server from collecting all the time: Go waits until the heap has
// doubled, and this allocation, which never becomes memory because nothing touches it, counts as
// part of it. It is no more than a sixteenth of the limit, the bytes that the process may use; 0 is
// no limit. An operator's own GOGC or GOMEMLIMIT is respected.
func HeapFloor(limit int64) []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	floor := int64(HeapFloorBytes)
	if limit > 0 {
		floor = min(floor, limit/16)
	}
	return make([]byte, floor)
}
