package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/host/register/registertest"
)

// TestConformance is what package internal/host/register/redis does with a stand-in.
func TestConformance(t *testing.T) {
	sizes := []int{1, 3}
	if testing.Short() {
		sizes = sizes[1:]
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			registertest.Run(t, func(t *testing.T) registertest.Fixture {
				var servers []*server
				for i := range n {
					s, _ := base(t, i, n, everysec...)
					servers = append(servers, s)
				}
				return registertest.Fixture{Open: func() (stores []register.Store, err error) {
					for _, s := range servers {
						store, err := redis.Open(context.Background(), redis.Options{Addr: s.addr})
						if err != nil {
							return nil, err
						}
						stores = append(stores, store)
					}
					return stores, nil
				}}
			})
		})
	}
}
