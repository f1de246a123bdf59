package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// watchedOutput is the standard output of a command, which must not end with success when its output is lost:
// tables are written by code that does not look at errors.
type watchedOutput struct {
	to io.Writer

	mu     sync.Mutex
	failed error // the first
}

// Write implements io.Writer.
func (o *watchedOutput) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			o.failed = err
		}
	}
	return n, err
}

// trouble is the error by which output was lost. A reader that went away has seen what it wanted.
func (o *watchedOutput) trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil || errors.Is(o.failed, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("the output was not written: %w", o.failed)
}
