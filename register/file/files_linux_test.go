package file

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A filesystem that says nothing of direct I/O takes our blocks; one that says that it takes none, or
// only larger ones, is refused.
func TestWhatTheKernelSaysOfDirectIO(t *testing.T) {
	for _, c := range []struct {
		mask             uint32
		memory, transfer uint32
		says             string
	}{
		{0, 0, 0, ""},
		{unix.STATX_DIOALIGN, 512, 512, ""},
		{unix.STATX_DIOALIGN, 4, block, ""},
		{unix.STATX_DIOALIGN, block, 512, ""},
		{unix.STATX_DIOALIGN, 0, 0, "takes no direct I/O"},
		{unix.STATX_DIOALIGN, 512, 2 * block, "only in units of 8192 bytes"},
		{unix.STATX_DIOALIGN, 2 * block, 512, "only in units of 8192 bytes"},
	} {
		err := fits("/leases", &unix.Statx_t{Mask: c.mask, Dio_mem_align: c.memory, Dio_offset_align: c.transfer})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
