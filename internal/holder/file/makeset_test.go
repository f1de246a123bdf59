package file

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
)

// TestASetIsCheckedFirst: the stores of a set are made in the order of their paths, when all have been looked
// at. The error says which stores there are when one cannot be made.
func TestASetIsCheckedFirst(t *testing.T) {
	errDisk := errors.New("the disk fails")
	paths := []string{"/a", "/b", "/c"}
	for _, tt := range []struct {
		fails string
		want  []string
		says  string
	}{
		{"", []string{"check /a 0", "check /b 1", "check /c 2", "make /a 0", "make /b 1", "make /c 2"}, ""},
		{"check /b 1", []string{"check /a 0", "check /b 1"}, "the disk fails"},
		{"check /c 2", []string{"check /a 0", "check /b 1", "check /c 2"}, "the disk fails"},
		{"make /a 0", []string{"check /a 0", "check /b 1", "check /c 2", "make /a 0"}, "the disk fails"},
		{"make /b 1", []string{"check /a 0", "check /b 1", "check /c 2", "make /a 0", "make /b 1"}, "the disk fails; half a set is left: empty /a before it is made again"},
		{"make /c 2", []string{"check /a 0", "check /b 1", "check /c 2", "make /a 0", "make /b 1", "make /c 2"}, "the disk fails; half a set is left: empty /a, /b before it is made again"},
	} {
		var did []string
		does := func(what string) step {
			return func(path string, h register.Header, opts file.InitOptions) error {
				did = append(did, fmt.Sprint(what, " ", path, " ", h.Index))
				if h.Of != 3 || opts.Handles != 5 || !opts.SingleHost {
					t.Errorf("%s: the header is %+v and the options are %+v, want those that were given", did, h, opts)
				}
				if did[len(did)-1] == tt.fails {
					return errDisk
				}
				return nil
			}
		}
		err := makeSet(paths, register.Header{Of: 3}, file.InitOptions{Handles: 5, SingleHost: true}, does("check"), does("make"))
		if !slices.Equal(did, tt.want) {
			t.Errorf("%q fails: done is %q, want %q", tt.fails, did, tt.want)
		}
		if (err == nil) != (tt.says == "") || err != nil && (!errors.Is(err, errDisk) || err.Error() != tt.says) {
			t.Errorf("%q fails: got %v, want %q", tt.fails, err, tt.says)
		}
	}
}
