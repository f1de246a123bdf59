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
	extra string   // Go source of what files not chosen would give
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
	{
		dir: "integration", name: "leases", files: []string{"v3_lease_test.go"},
		extra: `func eqErrGRPC(a, b error) bool { return a.Error() == b.Error() }`,
		short: "^TestV3(LeaseRevoke|LeaseNegativeID|PutOnNonExistLease|LeaseSwitch|LeaseFailover|LeaseRecoverAndRevoke)$",
	},
	{
		dir: "integration", name: "services",
		files: []string{"v3lock_grpc_test.go", "v3election_grpc_test.go", "v3_election_test.go", "v3_stm_test.go"},
		// For a test that is left out.
		extra: `import pb "go.etcd.io/etcd/api/v3/etcdserverpb"
type user struct{ name, password, role, key, end string }
func authSetupUsers(any, pb.AuthClient, []user) {}
func authSetupRoot(any, pb.AuthClient)          {}`,
		short: "^TestV3|^TestElectionFailover$|^TestSTMConflict$",
	},
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
	"both/concurrency3/ExampleSTM_apply":                     "its transactions read at a revision, serializably and from any member; one that lags answers \"future revision\"",
	"both/services/TestElectionWithAuthEnabled":              "needs authentication",
	"both/leases/TestV3LeaseFailover":                        "cuts a member off from its peers and asks it, which needs etcd in the test's process",
	"both/leases/TestV3LeaseCheckpoint":                      "sets an interval that etcd has no flag for",
	"tenure/leases/TestV3LeasePromote":                       "wants a new leader to give a lease its whole TTL again; Tenure gives a lease unrenewed for 0.4 TTL what was left",
	"tenure/leases/TestV3LeaseLeases":                        "wants leases in the order in which they will expire, Tenure lists them by id",
	"tenure/leases/TestV3LeaseKeepAliveForwardingCatchError": "counts errors in etcd's /metrics, the rest of it is in package leases",
	"tenure/lease/TestLeaseLeases":                           "wants leases in the order in which they will expire, Tenure lists them by id",
	"tenure/lease/TestLeaseWithRequireLeader":                "counts errors in etcd's /metrics, the rest of it is in package leases",
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
