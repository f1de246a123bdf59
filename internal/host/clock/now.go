package clock

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/machine"
)

func now() machine.Mono {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		panic(fmt.Sprintf("clock: %v", err)) // without a clock there is no lease
	}
	return machine.Mono(ts.Nano())
}
