package etcd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure"
)

func TestRecordRoundTrip(t *testing.T) {
	claim := tenure.Claim{Name: "n", Holder: `a "b" é`, Slots: tenure.Shared, LockDelay: 1500 * time.Millisecond}
	value, err := encodeRecord(claim)
	if err != nil {
		t.Fatal(err)
	}
	got := decodeRecord(&mvccpb.KeyValue{Value: []byte(value)})
	if diff := cmp.Diff(record{1, claim.Holder, claim.Slots, 1500}, got); diff != "" {
		t.Error(diff)
	}
}

// TestForeignValues: whatever stands there, the key is exclusive unless it is ours.
func TestForeignValues(t *testing.T) {
	for value, holder := range map[string]string{
		"":                       "a plain etcd client with lease beef",
		"10.0.0.1":               `"10.0.0.1", a plain etcd client with lease beef`,
		`{"slots":5}`:            `"{\"slots\":5}", a plain etcd client with lease beef`,
		`{"tenure":1}`:           `"{\"tenure\":1}", a plain etcd client with lease beef`,
		`{"tenure":1,"slots":2}`: `"{\"tenure\":1,\"slots\":2}", a plain etcd client with lease beef`,
		`{"tenure":1,"slots":0`:  `"{\"tenure\":1,\"slots\":0", a plain etcd client with lease beef`,
	} {
		got := decodeRecord(&mvccpb.KeyValue{Value: []byte(value), Lease: 0xbeef})
		if diff := cmp.Diff(record{Holder: holder, Slots: 1}, got); diff != "" {
			t.Errorf("%s: %s", value, diff)
		}
	}
}

func TestQueueName(t *testing.T) {
	for _, c := range []struct {
		key   string
		lease int64
		want  string
	}{
		{"a/beef", 0xbeef, "a"},
		{"a/b/beef", 0xbeef, "a/b"},
		{"/a/beef", 0xbeef, "/a"},
		{"a/beef", 0xbee, ""},
		{"a/BEEF", 0xbeef, ""},
		{"a/0", 0, ""},
		{"beef", 0xbeef, ""},
		{"/beef", 0xbeef, ""},
	} {
		got, ok := queueName(&mvccpb.KeyValue{Key: []byte(c.key), Lease: c.lease})
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("queueName(%q, lease %x) = %q, %v; want %q", c.key, c.lease, got, ok, c.want)
		}
		if ok && queueKey(got, c.lease) != c.key {
			t.Errorf("queueKey(%q, %x) = %q, want %q", got, c.lease, queueKey(got, c.lease), c.key)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"tenure":1,"holder":"h","slots":2,"delay_ms":5}`), int64(1))
	f.Add([]byte(`10.0.0.1:80`), int64(77))
	f.Fuzz(func(t *testing.T, value []byte, lease int64) {
		r := decodeRecord(&mvccpb.KeyValue{Value: value, Lease: lease})
		if r.Holder == "" || r.Slots < 1 || r.Delay < 0 {
			t.Errorf("%q: %+v", value, r)
		}
	})
}
