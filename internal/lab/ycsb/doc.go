// Package ycsb draws keys as the Yahoo! Cloud Serving Benchmark does: Cooper, Silberstein, Tam,
// Ramakrishnan, Sears, Benchmarking Cloud Serving Systems with YCSB, SoCC 2010. It is the
// workload on which Moraru, Andersen and Kaminsky evaluate quorum leases (Paxos Quorum Leases,
// SoCC 2014, section 5.1). The key space has Zipf popularity of exponent 0.99, and each site
// has a popularity order of its own.
//
//	zipf := ycsb.NewZipf(100_000, ycsb.Theta)       // shared by all sites
//	site := ycsb.Site{                              // one a site
//		Popularity: zipf,
//		Order:      ycsb.NewOrder(100_000, seeded), // which key has which rank here
//		Reads:      0.9,
//	}
//	op := site.Next(source)                         // {Key: 70211, Read: true}
//
// The package is pure: randomness is an argument, so a seed gives the same
// operations each time. A source of math/rand/v2 will do. Nothing here changes
// after it was made; goroutines may share all of it, with a source each.
//
// # The generator
//
// It is Gray, Sundaresan, Englert, Baclawski, Weinberger, Quickly Generating Billion-Record
// Synthetic Databases, SIGMOD 1994, which YCSB uses too: one random number and one power a key,
// and no table. Ranks 0 and 1 have exactly the probability of Zipf's law. Those from 2 on
// follow a curve that is close to it, at most 0.013 of all requests apart for any prefix of
// 100,000 ranks.
//
// # Left out
//
// YCSB's scrambling by a hash, for which an [Order] is the better thing here: each
// site needs one of its own, and a hash makes two keys fall together. Key names;
// scans, inserts, read-modify-write; item counts that grow.
package ycsb
