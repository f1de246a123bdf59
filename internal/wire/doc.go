// Package wire writes and reads the fields of messages and records: numbers as varints or
// little endian, and byte strings behind their length.
//
// A [Writer] appends, and a [Reader] takes off the front what the Writer's method of the same
// name has appended.
//
// A Reader may be given anything. After the first field that is missing or does not
// fit all are zero, so that a decoder reads all its fields, and asks once, at the end,
// whether that was well. No length makes it read past the end. Only Text allocates.
//
// [Checksum] is the one that files and frames are protected by.
package wire
