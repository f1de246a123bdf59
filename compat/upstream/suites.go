package upstream

import "path"

// testsModule is where etcd's tests are; its version is in go.mod.
const testsModule = "go.etcd.io/etcd/tests/v3"

// suite is a package of etcd's tests.
type suite struct {
	dir   string   // in the tests module
	name  string   // when not the last part of dir
	size  int      // members, where the tests do not say it
	files []string // these only, when not all
	short string   // pattern of the tests that -short runs, "" for all
	run   string   // pattern of the tests that are run otherwise, "" for all
}

var suites = []suite{
	{dir: "integration/clientv3/concurrency"},
	{dir: "integration/clientv3/concurrency", name: "concurrency3", size: 3},
	{
		dir:   "integration/clientv3/lease",
		short: "^TestLease(NotFoundError|Grant|Revoke|KeepAliveOnce|KeepAlive|KeepAliveNotFound|TimeToLive|Leases)$|^TestLeasing(PutGet|TxnOwnerIf)$",
	},
	{dir: "integration/clientv3/naming", short: "Manager"},
	{dir: "integration/clientv3/experimental/recipes", short: "MultiNode"},
}

func (s suite) title() string {
	if s.name != "" {
		return s.name
	}
	return path.Base(s.dir)
}

// leftOut says why a test is not run against a kind, by "kind/test"; "both" is
// for either.
var leftOut = map[string]string{}
