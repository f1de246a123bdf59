// Package patroni runs a real Patroni with two PostgreSQL servers over three members, by the JSON gateway,
// which is all that Patroni speaks: members and primaries are killed, and never are there two primaries.
//
//	apt-get install patroni postgresql && go test ./patroni -v
//
// Without Patroni, PostgreSQL and the right to become the user postgres the test is skipped.
package patroni
