package main

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/tenure-lease/tenure/internal/cli"
)

func TestMemoryLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing known", nil, 0},
		{"the machine's", map[string]string{"proc/meminfo": "MemFree: 5 kB\nMemTotal:       2000 kB\n"}, 2000 << 10},
		{"in a unit that is not known", map[string]string{"proc/meminfo": "MemTotal: 2000 pages\nMemTotal: 3000\n"}, 0},
		{"a container's", map[string]string{"proc/meminfo": "MemTotal: 2000 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000\n"}, 1000000},
		{"of all above the group", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "3000\n", "sys/fs/cgroup/a/memory.max": "2000\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 2000},
		{"of the group", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/memory.max": "2000\n",
		}, 1000},
		{"no number of bytes", map[string]string{"proc/meminfo": "MemTotal: 2000 kB\n", "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "0\n", "sys/fs/cgroup/memory.max": "-1\n"}, 2000 << 10},
		{"of the first group, as a container sees that of its host", map[string]string{"proc/self/cgroup": "0::/docker/x\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"of the first group, version 1", map[string]string{"proc/self/cgroup": "4:memory:/docker/x\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n"}, 1000},
		{"another group's", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/b/memory.max": "1000\n"}, 0},
		{"of another controller's group", map[string]string{"proc/self/cgroup": "3:cpu:/a\n", "sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n"}, 0},
		{"version 1", map[string]string{
			"proc/self/cgroup": "12:cpu,cpuacct:/x\n4:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "proc/meminfo": "MemTotal: 2000 kB\n",
		}, 5000},
	} {
		fsys := fstest.MapFS{}
		for name, text := range tt.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryLimit(fsys); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// The collector is told of the limit before the kernel enforces it, unless the operator has
// told it; then that holds.
func TestRespectMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, tt := range []struct {
		operator, pace string
		limit          int64
		want           int64 // of the collector
		floor          int
	}{
		{"", "", 0, math.MaxInt64, cli.HeapFloorBytes},
		{"", "", 256 << 20, 256 << 20 / 10 * 9, 16 << 20},
		{"", "", 16*cli.HeapFloorBytes - 16, (16*cli.HeapFloorBytes - 16) / 10 * 9, cli.HeapFloorBytes - 1},
		{"", "", 16 * cli.HeapFloorBytes, 16 * cli.HeapFloorBytes / 10 * 9, cli.HeapFloorBytes},
		{"", "", 10 << 30, 9 << 30, cli.HeapFloorBytes},
		{"", "50", 10 << 30, 9 << 30, 0},
		{"", "50", 0, math.MaxInt64, 0},
		{"5GiB", "", 10 << 30, math.MaxInt64, 0},
		{"5GiB", "", 0, math.MaxInt64, 0},
	} {
		t.Setenv("GOGC", tt.pace)
		t.Setenv("GOMEMLIMIT", tt.operator)
		debug.SetMemoryLimit(math.MaxInt64)
		floor := respectMemory(tt.limit)
		if got := debug.SetMemoryLimit(-1); got != tt.want || len(floor) != tt.floor {
			t.Errorf("GOMEMLIMIT %q, GOGC %q, %d bytes to use: the collector has %d and a floor of %d, want %d and %d", tt.operator, tt.pace, tt.limit, got, len(floor), tt.want, tt.floor)
		}
	}
}
