// Package httpapi is what a member serves over HTTP, beside gRPC on the port for clients and on
// ports for metrics, with etcd's paths, texts and statuses:
//
//	/version           the versions of etcd whose API this is
//	/health            whether the member can serve, in JSON, with the reason
//	/livez /readyz     the same for orchestrators, check by check (?verbose, ?exclude=, /readyz/NAME)
//	/metrics           figures, as package metrics gathers them
//	/v3/…              etcd's gRPC API in JSON, by requests and by websockets
//	/debug/pprof/…     profiles, if they are enabled
//
// One file holds one subject. Whatever etcd says to a client or a probe is said in the same words
// here, because people's tools look for them.
package httpapi
