// Package flease keeps leases among peers, with no server and no disk: the algorithm of
// B. Kolbeck, M. Högqvist, J. Stender and F. Hupfeld, "Fault-Tolerant and Decentralized
// Lease Coordination in Distributed Systems" (ZIB-Report 10-02, 2010).
package flease
