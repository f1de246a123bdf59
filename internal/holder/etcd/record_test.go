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

// TestNonsenseIsExclusive: a value that has our form and cannot be ours shares with nobody.
func TestNonsenseIsExclusive(t *testing.T) {
	good := `{"tenure":1,"holder":"h","slots":2,"delay_ms":5}`
	if got := decodeRecord(&mvccpb.KeyValue{Value: []byte(good)}); got != (record{1, "h", 2, 5}) || got.delay() != 5*time.Millisecond {
		t.Errorf("%s is read as %+v", good, got)
	}
	for _, value := range []string{
		`{"tenure":0,"holder":"h","slots":2}`,
		`{"tenure":-1,"holder":"h","slots":2}`,
		`{"tenure":1,"holder":"","slots":2}`,
		`{"tenure":1,"holder":"h","slots":0}`,
		`{"tenure":1,"holder":"h","slots":-2}`,
		`{"tenure":1,"holder":"h","slots":2,"delay_ms":-1}`,
		`{"tenure":1,"holder":"h","slots":2`,
		good + "x",
	} {
		if got := decodeRecord(&mvccpb.KeyValue{Value: []byte(value), Lease: 0xbeef}); got.Slots != 1 || got.Delay != 0 || got.Tenure != 0 || got.Holder == "h" || got.Holder == "" {
			t.Errorf("%s is read as %+v, want a stranger's exclusive claim", value, got)
		}
	}
}

// TestQueued: under the prefix of a name lie keys of longer names, and keys that stand in no queue.
func TestQueued(t *testing.T) {
	ours := &mvccpb.KeyValue{Key: []byte("a/beef"), Lease: 0xbeef}
	later := &mvccpb.KeyValue{Key: []byte("a/cafe"), Lease: 0xcafe}
	got := queued("a", []*mvccpb.KeyValue{
		{Key: []byte("a/b/beef"), Lease: 0xbeef}, ours, {Key: []byte("a/beee"), Lease: 0xbeef}, {Key: []byte("a/config")}, {Key: []byte("a/beef")}, later, {Key: []byte("aa/beef"), Lease: 0xbeef},
	})
	if len(got) != 2 || got[0] != ours || got[1] != later {
		t.Errorf("in the queue of a are %v, want a/beef and a/cafe", got)
	}
}

// TestForeignValues: a key with any value that is not ours is exclusive.
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
