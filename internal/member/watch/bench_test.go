package watch

import (
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// BenchmarkDispatch measures a put and the way of its event to one of n watchers,
// or to all n of them.
func BenchmarkDispatch(b *testing.B) {
	for _, kind := range []string{"key", "prefix", "samekey"} {
		for _, n := range []int{1, 1000, 100_000} {
			if kind == "samekey" && n == 100_000 {
				continue // the cost is the watchers', not the index's
			}
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) {
				w := newWorld(b, Config{})
				s := w.hub.NewStream(0)
				defer s.Close()
				for i := range n {
					key, end := fmt.Sprintf("key%07d", i), ""
					switch kind {
					case "prefix":
						end = fmt.Sprintf("key%07d", i+1)
					case "samekey":
						key = "key0000000"
					}
					if err := s.Create(context.Background(), watch(key, end, 0)); err != nil {
						b.Fatal(err)
					}
					if _, err := s.Next(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				key := []byte("key0000000")
				if _, err := w.store.Put(&pb.PutRequest{Key: key}); err != nil {
					b.Fatal(err)
				}
				want := 1
				if kind == "samekey" {
					want = n
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := w.store.Put(&pb.PutRequest{Key: key}); err != nil {
						b.Fatal(err)
					}
					view := w.store.View()
					w.hub.view.Store(&view) // as Publish, without waking the hub
					w.settle()
					for range want {
						if _, err := s.Next(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
