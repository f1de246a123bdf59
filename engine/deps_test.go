package engine

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestAnEngineCostsItsOwnModules: a program that imports one engine links the modules of that
// engine, and of no other.
func TestAnEngineCostsItsOwnModules(t *testing.T) {
	const grpc, etcd, redis = "google.golang.org/grpc", "go.etcd.io/etcd/", "github.com/redis/"
	for name, without := range map[string][]string{
		"etcd":   {redis},
		"file":   {grpc, etcd, redis},
		"redis":  {grpc, etcd},
		"flease": {grpc, etcd, redis},
	} {
		out, err := exec.Command("go", "list", "-deps", "./"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := strings.Fields(string(out))
		for _, module := range without {
			if i := slices.IndexFunc(deps, func(dep string) bool { return strings.HasPrefix(dep, module) }); i >= 0 {
				t.Errorf("engine/%s links %s", name, deps[i])
			}
		}
	}
	out, err := exec.Command("go", "list", "-deps", "./etcd").Output()
	if err != nil || !strings.Contains(string(out), grpc) {
		t.Errorf("engine/etcd links no %s, %v: the test looks for a name that nobody has", grpc, err)
	}
}
