package file

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/tenure-lease/tenure/internal/holder/address"
)

// ReadURL reads a file URL.
func ReadURL(whole string) (cfg Config, err error) {
	rest, ok := strings.CutPrefix(whole, "file://")
	switch {
	case !ok:
		return cfg, fmt.Errorf("%w %q is not a file URL", address.ErrURL, whole)
	case !strings.HasPrefix(rest, "/"):
		return cfg, fmt.Errorf("%w %q: a path begins with a slash, so there are three: file:///mnt/shared/leases", address.ErrURL, whole)
	case strings.ContainsAny(rest, "?#"):
		return cfg, fmt.Errorf("%w %q has no options: `tenure lease init` fixes what there is to choose; write a ? in a path as %%3f", address.ErrURL, whole)
	}
	for path := range strings.SplitSeq(rest, ",") {
		path, err := url.PathUnescape(path)
		if err != nil {
			return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, whole, err)
		}
		if len(path) > 1 {
			path = strings.TrimRight(path, "/")
		}
		cfg.Paths = append(cfg.Paths, path)
	}
	if err := checkPaths(cfg.Paths); err != nil {
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, whole, err)
	}
	return cfg, nil
}
