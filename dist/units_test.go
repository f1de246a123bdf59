package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// units are the units by their files, with programs that this machine has in the place of ours.
func units(t *testing.T) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	var found []string
	for _, pattern := range []string{"systemd/*.*", "systemd/examples/*"} {
		of, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, of...)
	}
	for _, name := range found {
		text := regexp.MustCompile(`/usr/bin/tenure\b`).ReplaceAllString(string(read(t, name)), "/bin/true")
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) < 5 {
		t.Fatalf("there are %d units", len(files))
	}
	return dir, files
}

// systemd takes each unit without a word.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	_, files := units(t)
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		for _, file := range files {
			if strings.Contains(line, filepath.Base(file)) {
				t.Errorf("%s", line)
			}
		}
	}
	if err != nil {
		t.Errorf("systemd-analyze: %v, %s", err, out)
	}
}

// The member's unit keeps what the page promises of it.
func TestUnitOfAMember(t *testing.T) {
	unit := string(read(t, "systemd/tenure.service"))
	for _, line := range strings.Fields("Type=notify User=tenure ProtectSystem=strict NoNewPrivileges=yes LimitNOFILE=65536 OOMScoreAdjust=-900 Restart=on-failure StateDirectory=tenure CapabilityBoundingSet=") {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("tenure.service lacks %s", line)
		}
	}
	// No start helps a member that was removed, or that has a setting that is wrong.
	if !strings.Contains(unit, "\nRestartPreventExitStatus=64 77\n") {
		t.Error("tenure.service starts a member again and again that cannot start")
	}
	for _, file := range []string{"nightly", "tenure-backup"} {
		service := string(read(t, "systemd/examples/"+file+".service"))
		if !strings.Contains(service, "\nSuccessExitStatus=79\n") || !strings.Contains(service, " --every ") {
			t.Errorf("%s.service fails on the hosts that come second", file)
		}
	}
}
