// Package web holds Tenure against a stock etcd in what both serve by HTTP: the same requests are
// sent to both, and the answers have to be alike in status, type and body, but for IDs, terms and
// addresses.
//
//	go test ./web
package web
