// Package kube runs a real kube-apiserver over three members, and does to it what clusters do: objects are
// created, changed and watched, and listed by pages, while history is compacted and the member that leads is
// killed and replaced.
//
//	go test ./kube -v -timeout 30m        builds a kube-apiserver first: some ten minutes, once
//
// The program is built from its Go module, by the go.mod in the directory apiserver. TENURE_KUBE_APISERVER
// names one that was built before.
package kube
