// Package fleasescale measures in simulated time how many leases a second a cluster of Flease
// peers grants, against its number of peers. Section 1 of the paper wants the one to grow with
// the other, without partitions by hand.
//
// Each peer has one processor, and that is all there is: it takes time for every frame and
// every operation that comes or goes ([ServiceTimes], measured on a real machine). The peers
// run the product's package flease, unchanged; the names of ten million resources are spread
// over cells of three by rendezvous hashing. Each peer keeps some claims under way: it acquires
// a resource that is drawn at random, and gives it back as soon as it has it. It counts granted
// leases.
//
// A larger cluster shares less: with few peers what one has to tell another fills a frame,
// with many nearly every operation has a frame of its own. That is the step between few and
// many; behind it there is none.
package fleasescale
