// Package integration stands in for etcd's test framework of the same name. It has the part
// of the interface that the tests run by package upstream use. Its members are processes of
// the kind that TENURE_UPSTREAM_KIND names ("etcd" when unset).
//
// As in the framework, members tick every 10 ms and elect after 100 ms.
package integration
