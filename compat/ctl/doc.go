// Package ctl runs a script of etcdctl commands against a server and compares
// the output with a transcript, testdata/script.txt, that holds for both kinds. testdata/users.txt is
// one of users and roles.
//
// A line "$ put a 1" is a command of etcdctl, lines "< …" after it are its
// input, all others up to the next command its output, standard error included.
// "$ watch a | 3 lines" interrupts the command after so much output, and
// "| 3 lines &" leaves it running until the script ends. A failed command adds
// "exit 1". Arguments are split at spaces.
//
// Ids (lease, member, cluster; 12 hexadecimal digits or more) are numbered as
// they appear, ID1, ID2 and so on, in commands too. Addresses, versions, sizes,
// times and raft indexes are masked, and etcdctl's own log lines left out.
//
// `go test ./ctl -rewrite` writes the transcripts anew, from etcd.
package ctl
