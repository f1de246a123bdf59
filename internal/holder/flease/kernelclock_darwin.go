package flease

import (
	"errors"
	"time"
)

// kernelClock has nobody to ask here.
func kernelClock(time.Duration) error {
	return errors.New("macOS does not say how wrong its clock may be; run without the check")
}
