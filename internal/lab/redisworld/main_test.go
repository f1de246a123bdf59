package redisworld

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // a line for each server that is down
	os.Exit(m.Run())
}
