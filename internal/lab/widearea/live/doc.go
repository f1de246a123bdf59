// Package live checks package widearea against real members ([node.Node]), with the same
// five replicas and the same clients. The members share one process. They have their logs
// on a disk and TCP between them, and links that take as long as the paper's Table 1.
//
//	o, err := live.Run{Policy: "quorum/key", Workload: widearea.Table2, For: time.Minute, Dir: dir}.Play(ctx)
//
// [Clients] and the ways between members ([Stretch]) are for other systems, too, that are
// compared in the same way.
//
// It measures in real time, so that nothing of it repeats exactly, and all other work of
// the machine is in it. It is there to show that the figures of virtual time are no dream;
// those are the evaluation.
//
// # What is different from the evaluation in virtual time
//
//   - Five members, their clients and links share the processors of one machine.
//   - Clients call their member, and no network is between the two: an operation takes
//     0.4 ms less.
//   - Links are proxies. Data that arrive at one leave when their time has come, in order;
//     the timers of a busy machine make that late, by some milliseconds now and then.
//   - A minute and not ten thousand requests a client: policies that learn the readers of
//     each key have just begun. So the run in virtual time beside it is as long.
//
// [node.Node]: https://pkg.go.dev/github.com/tenure-lease/tenure/node#Node
package live
