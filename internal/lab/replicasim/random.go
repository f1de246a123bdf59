package replicasim

import (
	"crypto/rand"
	"encoding/binary"
	mrand "math/rand/v2"
)

// keepRandom notes the process's source of random numbers, and returns what puts it
// back.
func keepRandom() (restore func()) {
	before := rand.Reader
	return func() { rand.Reader = before }
}

// seedRaft gives raft a course of random numbers that the seed decides. Raft draws
// its election timeouts from crypto/rand.Reader, which is the whole process's:
// hence one world at a time, and never beside anything that needs secrets.
func seedRaft(seed uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	key[31] = 1 // another course than the world's own
	rand.Reader = mrand.NewChaCha8(key)
}
