package kv

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestSmoke(t *testing.T) {
	s := New()
	s.Grant(7, 60)
	s.Put(&pb.PutRequest{Key: []byte("a"), Value: []byte("1"), Lease: 7})
	s.Put(&pb.PutRequest{Key: []byte("a"), Value: []byte("2"), Lease: 7})
	v := s.View()
	r, err := v.Range(&pb.RangeRequest{Key: []byte("a"), Revision: 2})
	if err != nil || string(r.Kvs[0].Value) != "1" {
		t.Fatal(r, err)
	}
	s.Revoke(7)
	s.Compact(3)
	s.Put(&pb.PutRequest{Key: []byte("b"), Value: []byte("2")})
	var a, b bytes.Buffer
	s.View().WriteTo(&a)
	s2, err := Read(bytes.NewReader(a.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	s2.View().WriteTo(&b)
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatalf("%x %x", a.Bytes(), b.Bytes())
	}
}
