package dist

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The program of packages and containers needs no library, tells nothing of where it was built, and is the same
// each time.
func TestStatic(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command twice")
	}
	build := func() (file string, text []byte) {
		file = filepath.Join(t.TempDir(), "tenure")
		if out, err := exec.Command("make", "-C", "..", "static", "STATIC="+file).CombinedOutput(); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
		return file, read(t, file)
	}
	file, text := build()
	if _, again := build(); !bytes.Equal(text, again) {
		t.Error("two builds of the same sources differ")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if home, _ := os.UserHomeDir(); bytes.Contains(text, []byte(root+"/cmd")) || bytes.Contains(text, []byte(home+"/go/pkg")) {
		t.Error("the program names directories of the machine that built it")
	}
	program, err := elf.Open(file)
	if err != nil {
		t.Skip("not a program of ELF: ", err)
	}
	defer program.Close()
	libraries, _ := program.ImportedLibraries()
	if len(libraries) > 0 {
		t.Errorf("the program needs the libraries %q", libraries)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %v: it is linked dynamically", p.Type)
		}
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil || info.Main.Version == "" {
		t.Errorf("the program does not tell its version: %v", err)
	}
}
