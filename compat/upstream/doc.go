// Package upstream runs etcd's own integration tests, unchanged, against
// processes of etcd or of Tenure.
//
// The tests are in the module go.etcd.io/etcd/tests/v3, written against its
// framework/integration, which starts etcd inside the test process. Package integration
// beside this one has the parts of that interface that the tests use, and starts processes.
// At run time a test file is read from the module cache, and its import of the framework is
// replaced. Then `go test -overlay` builds it as if it lay in this directory; nothing of it
// is copied into this repository.
//
// TestUpstream reports each of etcd's tests as a subtest: with -v it prints those that
// Tenure passes. The table in suites.go says which packages are run, and which tests are
// left out and why.
package upstream
