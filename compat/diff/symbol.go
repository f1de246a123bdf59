package diff

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Symbols are far from every value a server chooses or a test means literally.
const (
	symbolRevision = int64(1) << 58 // plus a difference: revision of the store plus difference
	symbolLease    = int64(1) << 59 // plus an index: that lease of those granted with ID 0
	symbolSpan     = int64(1) << 40
)

func symbolicRevision(v int64) bool {
	return v > symbolRevision-symbolSpan && v < symbolRevision+symbolSpan
}
func symbolicLease(v int64) bool { return v >= symbolLease && v < symbolLease+symbolSpan }

var revisionFields = map[protoreflect.Name]bool{
	"revision": true, "start_revision": true, "create_revision": true, "mod_revision": true,
	"min_mod_revision": true, "max_mod_revision": true, "min_create_revision": true, "max_create_revision": true,
}

var leaseFields = map[protoreflect.Name]bool{"lease": true, "ID": true}

// mapInts applies f to every int64 field, at any depth, and to fields that are
// set only: proto3 does not tell a zero from an absent value.
func mapInts(m protoreflect.Message, f func(name protoreflect.Name, v int64) int64) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				mapInts(v.List().Get(i).Message(), f)
			}
		case fd.IsList() || fd.IsMap():
		case fd.Kind() == protoreflect.MessageKind:
			mapInts(v.Message(), f)
		case fd.Kind() == protoreflect.Int64Kind:
			m.Set(fd, protoreflect.ValueOfInt64(f(fd.Name(), v.Int())))
		}
		return true
	})
}

// resolve is a copy of a symbolic request as one server has to get it: at a
// store of the given revision, that chose these lease ids.
func resolve(req proto.Message, revision int64, granted []int64) proto.Message {
	req = proto.Clone(req)
	mapInts(req.ProtoReflect(), func(name protoreflect.Name, v int64) int64 {
		switch {
		case revisionFields[name] && symbolicRevision(v):
			return revision + v - symbolRevision
		case leaseFields[name] && symbolicLease(v):
			if i := int(v - symbolLease); i < len(granted) {
				return granted[i]
			}
			return 987654321 // never granted
		}
		return v
	})
	return req
}

// rename turns lease ids that the server chose into symbols, in place.
func rename(reply proto.Message, granted []int64) {
	names := map[int64]int64{}
	for i, id := range granted {
		names[id] = symbolLease + int64(i)
	}
	mapInts(reply.ProtoReflect(), func(name protoreflect.Name, v int64) int64 {
		if symbol, ok := names[v]; ok && leaseFields[name] {
			return symbol
		}
		return v
	})
}
