package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAHeaderInTheWrongPlace: a directory has the header of a directory, and a device that of a
// device, which says how many handles there are and how many slots each has.
func TestAHeaderInTheWrongPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		dir          bool
		areas, slots int
		says         string // nothing, if it is good
	}{
		"a directory's":              {dir: true},
		"a device's in a directory":  {dir: true, areas: 2, slots: 4, says: "it is the header of a device"},
		"a device's":                 {areas: 2, slots: 4},
		"a directory's on a device":  {says: "it is the header of a directory"},
		"a device's without slots":   {areas: 2, says: "it is the header of a directory"},
		"a device's without handles": {slots: 4, says: "it is the header of a directory"},
	} {
		path := filepath.Join(t.TempDir(), "store")
		at := path
		if tt.dir {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			at = filepath.Join(path, headerName)
		}
		b := make([]byte, block)
		h := storeHeader{Header: testHeader, single: true, areas: tt.areas, slots: tt.slots}
		h.encode(b)
		if err := os.WriteFile(at, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, single, err := Find(path)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Find says %v, want %q", name, err, tt.says)
		}
		if err == nil && (got != testHeader || !single) {
			t.Errorf("%s: Find returns %+v, for one host: %v; want %+v", name, got, single, testHeader)
		}
	}
}
