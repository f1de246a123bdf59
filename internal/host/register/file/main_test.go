package file_test

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register/filetest"
)

func TestMain(m *testing.M) { filetest.Main(m, func() {}) }
