package replica

import (
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/wire"
)

// The caller of a request is a byte that says of which of these kinds it is, and for a user
// its name and the revision at which it was recognised. The numbers are on disk.
const (
	callerNobody = 0
	callerUser   = 1
	callerMember = 2
)

// hasCallers reports whether an encoded batch names the callers of its requests. Most do not:
// without users in force, nobody is asked for.
func hasCallers(p []byte) bool {
	return len(p) > 0 && (p[0] == calledVersion || p[0] == keptCalledVersion)
}

func writeCaller(w *wire.Writer, c auth.Caller) {
	switch {
	case c.Member:
		w.Byte(callerMember)
	case c.User == "":
		w.Byte(callerNobody)
	default:
		w.Byte(callerUser)
		w.Text(c.User)
		w.Uvarint(c.Revision)
	}
}

func readCaller(r *wire.Reader) auth.Caller {
	switch r.Byte() {
	case callerNobody:
		return auth.Caller{}
	case callerUser:
		return auth.Caller{User: r.Text(), Revision: r.Uvarint()}
	case callerMember:
		return auth.Caller{Member: true}
	}
	r.Fail()
	return auth.Caller{}
}

// skipCaller passes over the caller of a request, without an allocation, if the batch has
// callers.
func skipCaller(r *wire.Reader, batch []byte) {
	if !hasCallers(batch) {
		return
	}
	switch r.Byte() {
	case callerNobody, callerMember:
	case callerUser:
		r.Bytes()
		r.Uvarint()
	default:
		r.Fail()
	}
}
