package file

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/holder/address"
)

// TestURLs: the paths that a URL names, and what each mistake is answered with.
func TestURLs(t *testing.T) {
	for _, tt := range []struct {
		url   string
		paths []string
		err   string
	}{
		{url: "file:///mnt/leases", paths: []string{"/mnt/leases"}},
		{url: "file:///mnt/leases/", paths: []string{"/mnt/leases"}},
		{url: "file:///a//", paths: []string{"/a"}},
		{url: "file:///", paths: []string{"/"}},
		{url: "file:///a,/b,/c/", paths: []string{"/a", "/b", "/c"}},
		{url: "file:///a%2cb,/c%3f%20,/d+e", paths: []string{"/a,b", "/c? ", "/d+e"}},
		{url: "etcd://a", err: "is not a file URL"},
		{url: "file://a", err: "a path begins with a slash"},
		{url: "file:///a?x=1", err: "has no options"},
		{url: "file:///a#x", err: "has no options"},
		{url: "file:///a%zz", err: "invalid URL escape"},
		{url: "file:///a,,/b", err: "path"},
		{url: "file:///a,/a", err: "twice"},
	} {
		cfg, err := ReadURL(tt.url)
		if tt.err != "" {
			if err == nil || !errors.Is(err, address.ErrURL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s is read with %v, want an error about it that has %q", tt.url, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(cfg.Paths, tt.paths) {
			t.Errorf("%s is read as %q, %v; want %q", tt.url, cfg.Paths, err, tt.paths)
		}
	}
}
