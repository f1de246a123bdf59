package wire

import "hash/crc32"

// castagnoli is the table of CRC-32C, which processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of p, by which files and frames are known to be whole.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Extend returns the checksum of what has the given one, and p behind it.
func Extend(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }
