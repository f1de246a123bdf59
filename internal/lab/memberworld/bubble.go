package memberworld

import (
	_ "unsafe" // for go:linkname

	_ "go.etcd.io/etcd/client/v3"
)

// clientDone is what contexts of clientv3's watches answer for Done. It is a channel that is
// made when the program starts, so outside of any bubble, and a goroutine that selects on it
// would freeze the bubble's time. It is never closed: a nil channel does as well.
//
//go:linkname clientDone go.etcd.io/etcd/client/v3.valCtxCh
var clientDone chan struct{}

func init() { clientDone = nil }
