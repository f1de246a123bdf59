package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// memoryLimit is how many bytes this process may use, by its control groups and the
// machine's memory, as found below the root of the file system; 0 if that is not known.
func memoryLimit(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	at := func(name string) {
		raw, err := fs.ReadFile(root, strings.TrimPrefix(name, "/"))
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && n > 0 {
			limit = min(limit, n) // "max" is no number
		}
	}
	if raw, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
			if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					limit = min(limit, n<<10)
				}
			}
		}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for s := bufio.NewScanner(bytes.NewReader(groups)); s.Scan(); {
		_, rest, _ := strings.Cut(s.Text(), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		dir, file := "/sys/fs/cgroup", "memory.max"
		switch controllers {
		case "":
		case "memory":
			dir, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) { // a limit holds for all below it
			at(path.Join(dir, group, file))
			if group == "/" {
				break
			}
		}
	}
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}
