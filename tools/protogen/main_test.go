package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsUpToDate tells that go generate was forgotten.
func TestGeneratedCodeIsUpToDate(t *testing.T) {
	t.Chdir("..") // where go generate runs it
	protos, err := filepath.Glob(filepath.Join(root, "api", "*", "*.proto"))
	if err != nil || len(protos) == 0 {
		t.Fatalf("no .proto files: %v", err)
	}
	for _, path := range protos {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		files, err := generate(name, root)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != len(plugins) {
			t.Errorf("%s: %d generated files, want one of each of %v", name, len(files), plugins)
		}
		for file, want := range files {
			got, err := os.ReadFile(filepath.Join(root, file))
			if err != nil || string(got) != want {
				t.Errorf("%s is not what %s gives (%v): go generate ./%s", file, name, err, filepath.Dir(name))
			}
		}
	}
}

func TestErrorsName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.proto"), []byte("syntax = \"proto3\";\nmessage {"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad.proto", "none.proto"} {
		if _, err := generate(name, dir); err == nil {
			t.Errorf("%s was compiled", name)
		} else {
			t.Log(err)
		}
	}
}
