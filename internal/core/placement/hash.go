package placement

// Bucket is the hash bucket of a key among n, which is a power of two. It is part of
// what a Configuration means: members must agree on it, and so it never changes. Of
// fewer buckets, each is the union of those whose numbers are equal modulo their count.
//
// It is FNV-1a of 64 bits, whose low bits are mixed with the others by a
// multiplication, for keys that differ in one digit.
func Bucket(key []byte, n int) int {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return int(h & uint64(n-1))
}
