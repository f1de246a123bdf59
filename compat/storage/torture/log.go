package torture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tenure-lease/tenure/compat/storage"
)

// The reports of holders.
const (
	begin = "begin" // holds from here on
	beat  = "beat"  // still holds
	write = "write" // was let in by the fence
	stale = "stale" // was refused by the fence
	told  = "told"  // was told that the lease is lost, or about to be
	end   = "end"   // done, and about to release
)

// line is one report of a holder, as it stands in the log that all share.
type line struct {
	token uint64
	pid   int
	what  string
	at    time.Duration // by the machine's clock; at that moment the holder's lease was valid, if it begins or beats
	until time.Duration // its deadline as far as it knew; 0 if it does not
	delay time.Duration // the δ that it has measured; 0 if it does not
}

func (l line) String() string {
	return fmt.Sprintf("%d %d %s %d %d %d", l.token, l.pid, l.what, l.at, l.until, l.delay)
}

// logFile is a file of lines about one name. Whole lines are appended by single writes,
// so that processes need not agree on anything.
type logFile struct{ *os.File }

func logPath(dir, name string) string { return filepath.Join(dir, name+".log") }

func openLog(dir, name string) (logFile, error) {
	f, err := os.OpenFile(logPath(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return logFile{f}, err
}

func (f logFile) add(l line) error {
	_, err := fmt.Fprintf(f, "%s\n", l)
	return err
}

func readLog(dir, name string) (lines []line, err error) {
	f, err := os.Open(logPath(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // nobody ever held it
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var l line
		if _, err := fmt.Sscan(scan.Text(), &l.token, &l.pid, &l.what, &l.at, &l.until, &l.delay); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.Name(), scan.Text(), err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// lastHolder is the process that reported last, 0 if none has.
func lastHolder(dir, name string) int {
	f, err := os.Open(logPath(dir, name))
	if err != nil {
		return 0
	}
	defer f.Close()
	tail := make([]byte, 512)
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0
	}
	n, _ := f.ReadAt(tail, max(0, size-int64(len(tail))))
	lines := bytes.Split(bytes.TrimSuffix(tail[:n], []byte("\n")), []byte("\n"))
	var l line
	fmt.Sscan(string(lines[len(lines)-1]), &l.token, &l.pid)
	return l.pid
}

var now = storage.Now
