package kv_test

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A leased key is put, read and watched; the end of its lease deletes it.
func Example() {
	s := kv.New()
	must(s.Grant(7, 60))
	if _, err := s.Put(&pb.PutRequest{Key: []byte("members/a"), Value: []byte("up"), Lease: 7}); err != nil {
		panic(err)
	}
	before := s.View()
	must(s.Revoke(7))

	for _, v := range []kv.View{before, s.View()} {
		resp, err := v.Range(&pb.RangeRequest{Key: []byte("members/"), RangeEnd: []byte("members0")})
		must(err)
		fmt.Println("revision", v.Revision(), "members", resp.Count)
	}
	events, err := s.View().Events(2)
	must(err)
	for e := range events {
		fmt.Println(e.KV.ModRevision, e.Type, string(e.KV.Key))
	}
	// Output:
	// revision 2 members 1
	// revision 3 members 0
	// 2 PUT members/a
	// 3 DELETE members/a
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
