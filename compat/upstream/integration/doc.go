// Package integration stands in for etcd's test framework of the same name: the
// part of its interface that the tests run by package upstream use, over
// processes of the kind that TENURE_UPSTREAM_KIND names ("etcd" when unset).
//
// As in the framework, members tick every 10 ms and elect after 100 ms.
package integration
