package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal reports whether what is written there comes on a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
