package etcd

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure"
)

// record is the value of a key in a queue.
type record struct {
	Tenure int    `json:"tenure"` // version of this form: 1
	Holder string `json:"holder"`
	Slots  int    `json:"slots"`
	Delay  int64  `json:"delay_ms,omitempty"` // the lock delay, which the lease includes
}

func encodeRecord(c tenure.Claim) (string, error) {
	b, err := json.Marshal(record{1, c.Holder, c.Slots, c.LockDelay.Milliseconds()})
	return string(b), err
}

// decodeRecord reads anybody's value. A foreign value is exclusive, which is all that plain etcd
// locks and elections know.
func decodeRecord(kv *mvccpb.KeyValue) record {
	var r record
	if json.Unmarshal(kv.Value, &r) == nil && r.Tenure >= 1 && r.Slots >= 1 && r.Delay >= 0 && r.Holder != "" {
		return r
	}
	holder := fmt.Sprintf("a plain etcd client with lease %x", kv.Lease)
	if len(kv.Value) > 0 { // an election's proposal
		holder = fmt.Sprintf("%.100q, %s", kv.Value, holder)
	}
	return record{Holder: holder, Slots: 1}
}

func (r record) delay() time.Duration { return time.Duration(r.Delay) * time.Millisecond }

// prefix is where the queue of a name lies.
func prefix(name string) string { return name + "/" }

func queueKey(name string, lease int64) string {
	return prefix(name) + strconv.FormatInt(lease, 16)
}

// queueName is the inverse of queueKey: the name in whose queue the key stands,
// if it stands in one.
func queueName(kv *mvccpb.KeyValue) (string, bool) {
	name, id, ok := cutLast(string(kv.Key), "/")
	return name, ok && name != "" && kv.Lease != 0 && id == strconv.FormatInt(kv.Lease, 16)
}

// looksQueued reports whether the key without its lease may stand in a queue.
func looksQueued(kv *mvccpb.KeyValue) bool {
	_, id, ok := cutLast(string(kv.Key), "/")
	_, err := strconv.ParseInt(id, 16, 64)
	return ok && err == nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// queued are the keys among kvs that stand in the queue of the name.
func queued(name string, kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	var in []*mvccpb.KeyValue
	for _, kv := range kvs {
		if n, ok := queueName(kv); ok && n == name {
			in = append(in, kv)
		}
	}
	return in
}

// slots returns the slots of a queue's claims, for tenure.Admitted.
func slots(queue []record) []int {
	ns := make([]int, len(queue))
	for i, r := range queue {
		ns[i] = r.Slots
	}
	return ns
}
