package leasetest_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/leasetest"
)

func TestMemoryConforms(t *testing.T) {
	leasetest.Simulate(t, func(testing.TB) leasetest.Fixture {
		return leasetest.NewMemory().Fixture(800 * time.Millisecond)
	})
}
