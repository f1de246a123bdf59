// Package wire reads what the protocols' packages write with encoding/binary's Append
// functions: numbers as varints, and byte strings behind their length.
//
// A [Reader] may be given anything. After the first field that is missing or does not
// fit all are zero, so that a decoder reads all its fields, and asks once, at the end,
// whether that was well. It allocates nothing, and no length makes it read past the end.
package wire
