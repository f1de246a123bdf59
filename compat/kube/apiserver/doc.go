// Package apiserver is where the version of kube-apiserver is pinned: it is a tool of this module.
package apiserver
