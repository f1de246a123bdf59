package quietlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// However many events there are, the log has a line a second, and counts the others.
func TestOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var q Log
		l := slog.New(slog.NewTextHandler(&out, nil))
		for range 2500 {
			q.Warn(l, "a stranger", "from", "afar")
			time.Sleep(time.Millisecond)
		}
		if n := strings.Count(out.String(), `level=WARN msg="a stranger" from=afar`); n != 3 {
			t.Errorf("%d lines in 2.5 s, want one a second", n)
		}
		if n := strings.Count(out.String(), `"similar lines left out"=999`); n != 2 {
			t.Errorf("the lines that were left out are not counted:\n%s", &out)
		}
	})
}
