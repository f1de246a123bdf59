package upstream

import (
	"path"
	"slices"
	"strings"
)

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

// leftOut says why a test is not run against a kind, by "kind/suite/test";
// "both" stands for either kind.
var leftOut = map[string]string{
	"both/concurrency3/ExampleSTM_apply":      "its transactions read at a revision, serializably and from any member; one that lags answers \"future revision\"",
	"tenure/lease/TestLeaseLeases":            "wants leases in the order in which they will expire, Tenure lists them by id",
	"tenure/lease/TestLeaseWithRequireLeader": "counts errors in etcd's /metrics, the rest of it is in package leases",
}

// skipped lists the tests of a suite that are not run against a kind.
func (s suite) skipped(kind string) (tests []string) {
	for name := range leftOut {
		f := strings.Split(name, "/")
		if (f[0] == "both" || f[0] == kind) && f[1] == s.title() {
			tests = append(tests, f[2])
		}
	}
	slices.Sort(tests)
	return tests
}
