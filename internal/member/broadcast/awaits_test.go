package broadcast

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// The log of a member whose directory is new names the others that have not noted it, and tells when
// enough have.
func TestTheLogSaysWhomANewDirectoryWaitsFor(t *testing.T) {
	for _, tt := range []struct {
		what   string
		join   bool
		line   string
		needed string
	}{
		{"a founder", false, "this founder takes no part before more than half of the others have noted its directory", "needed=2"},
		{"a member that joins", true, "is it named by AddMember", "needed=1"},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		log := &logged{}
		n, err := Start(Config{
			ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String(), 2: "127.0.0.1:1", 3: "127.0.0.1:1"}, Join: tt.join, Listener: ln,
			Dir: t.TempDir(), Timeout: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		patience.Until(t, tt.what+" says whom it waits for", func() bool { return log.has(`"waits for"="[2 3]"`) })
		for _, want := range []string{tt.line, tt.needed} {
			if !log.has(want) {
				t.Errorf("%s that nobody has noted does not say %q", tt.what, want)
			}
		}
		const begins = "takes part from now on"
		if log.has(begins) {
			t.Errorf("%s that nobody has noted says that it takes part", tt.what)
		}
		n.acquaint(t, 2, 3)
		patience.Until(t, tt.what+" that both have noted says that it takes part", func() bool { return log.has(begins) })
	}
}
