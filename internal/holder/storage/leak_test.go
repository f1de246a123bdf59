package storage_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that claims, waits and looks leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
