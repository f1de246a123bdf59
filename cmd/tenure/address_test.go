package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// freeAddresses finds free addresses, below the range from which systems draw ports for
// outgoing connections.
func freeAddresses(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for tries := 0; len(addrs) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)))
		if err == nil {
			defer l.Close() // after all are found, so that they differ
			addrs = append(addrs, l.Addr().String())
		} else if tries > 1000 {
			t.Fatal(err)
		}
	}
	return addrs
}
