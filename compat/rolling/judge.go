package rolling

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/compat/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// write is one that was acknowledged. Each has a key of its own.
type write struct {
	key, value string
	revision   int64
}

// seen is an event of a watch.
type seen struct {
	key, value string
	revision   int64
}

// judgeState wants each acknowledged write in the state of a member.
func judgeState(acknowledged []write, state []*mvccpb.KeyValue) (faults []error) {
	there := make(map[string]*mvccpb.KeyValue, len(state))
	for _, kv := range state {
		there[string(kv.Key)] = kv
	}
	for _, w := range acknowledged {
		switch kv := there[w.key]; {
		case kv == nil:
			faults = append(faults, fmt.Errorf("%s was acknowledged at revision %d and is not there", w.key, w.revision))
		case kv.ModRevision != w.revision || string(kv.Value) != w.value || kv.Version != 1:
			faults = append(faults, fmt.Errorf("%s was acknowledged as %q at revision %d, and is %q at %d, version %d", w.key, w.value, w.revision, kv.Value, kv.ModRevision, kv.Version))
		}
	}
	return faults
}

// judgeWatch wants each key of the state seen once, in the order of revisions, and nothing else: no key is
// written twice, or deleted.
func judgeWatch(events []seen, state []*mvccpb.KeyValue) (faults []error) {
	missing := make(map[string]*mvccpb.KeyValue, len(state))
	for _, kv := range state {
		missing[string(kv.Key)] = kv
	}
	var last int64
	for _, e := range events {
		if e.revision <= last {
			faults = append(faults, fmt.Errorf("%s of revision %d is seen after revision %d", e.key, e.revision, last))
		}
		last = max(last, e.revision)
		switch kv := missing[e.key]; {
		case kv == nil:
			faults = append(faults, fmt.Errorf("%s of revision %d is seen again, or was never written", e.key, e.revision))
		case kv.ModRevision != e.revision || string(kv.Value) != e.value:
			faults = append(faults, fmt.Errorf("%s is seen as %q at revision %d, and is %q at %d", e.key, e.value, e.revision, kv.Value, kv.ModRevision))
		}
		delete(missing, e.key)
	}
	for key, kv := range missing {
		faults = append(faults, fmt.Errorf("%s of revision %d was never seen", key, kv.ModRevision))
	}
	return faults
}

// maxListed is how many faults are listed one by one.
const maxListed = 20

// listed is a line for each fault, or for the first ones and the number of the others.
func listed(faults []error) (lines []string) {
	for i, fault := range faults {
		if i == maxListed {
			return append(lines, fmt.Sprintf("and %d more", len(faults)-i))
		}
		lines = append(lines, fault.Error())
	}
	return lines
}

// fails reports whether faults fail the test: however many etcd has, they are facts about etcd.
func fails(kind server.Kind, faults []error) bool { return kind == server.Tenure && len(faults) > 0 }

// ofUsers reports whether a call was refused for a reason of users.
func ofUsers(err error) bool {
	known := rpctypes.Error(err)
	for _, reason := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrUserEmpty,
		rpctypes.ErrAuthFailed, rpctypes.ErrAuthNotEnabled, rpctypes.ErrInvalidAuthMgmt,
	} {
		if errors.Is(known, reason) {
			return true
		}
	}
	return false
}
