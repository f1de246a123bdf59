package etcd_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that leases, waits and watches leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
