package main

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// distFiles are the files for packages, containers and clusters that hold commands of ours.
func distFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, folder := range []string{"systemd", "container", "debian", "kubernetes"} {
		err := filepath.WalkDir(filepath.Join("../../dist", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, "../../")] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

var (
	variable      = regexp.MustCompile(`\b(?:TENURE|ETCD)_[A-Z_]+`)
	commandLines  = regexp.MustCompile(`(?:/usr/bin/tenure|\n\s+tenure) ([a-z][^;\n]*)`)
	argumentLists = regexp.MustCompile(`\["/usr/bin/tenure", ([^\]]+)\]`)
	argument      = regexp.MustCompile(`(?m)^\s+- (--[a-z-]+)`)
)

// Each command, flag and variable of the files for packages, containers and clusters is there.
func TestDistNamesCommands(t *testing.T) {
	root := rootCommand()
	serve, _, err := root.Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	var found int
	for name, text := range distFiles(t) {
		var lines []string
		for _, m := range commandLines.FindAllStringSubmatch(text, -1) {
			lines = append(lines, strings.TrimSuffix(m[1], `\`))
		}
		for _, m := range argumentLists.FindAllStringSubmatch(text, -1) {
			lines = append(lines, strings.NewReplacer(`"`, "", ",", "").Replace(m[1]))
		}
		for _, m := range argument.FindAllStringSubmatch(text, -1) {
			lines = append(lines, "serve "+m[1])
		}
		for _, line := range lines {
			if wrong := unknownWord(root, strings.Fields(line)); wrong != "" {
				t.Errorf("%s: tenure %s: %s", name, line, wrong)
			}
		}
		found += len(lines)
		for _, v := range variable.FindAllString(text, -1) {
			flag := strings.ToLower(strings.ReplaceAll(v[strings.Index(v, "_")+1:], "_", "-"))
			if v != "TENURE_AT" && serve.Flags().Lookup(flag) == nil {
				t.Errorf("%s: tenure serve has no --%s for %s", name, flag, v)
			}
			found++
		}
	}
	if found < 45 {
		t.Errorf("the files name %d commands, flags and variables, want 45", found)
	}
}

// The image's own settings give way to those of its user, by whichever name; the name etcd starts a member, too.
func TestImageSettingsGiveWay(t *testing.T) {
	text := distFiles(t)["dist/container/Dockerfile"]
	env := map[string]string{}
	for _, m := range regexp.MustCompile(`\b((?:ETCD|TENURE)_[A-Z_]+)=(\S+)`).FindAllStringSubmatch(text, -1) {
		env[m[1]] = m[2]
	}
	environ := func(env map[string]string) (lines []string) {
		for name, value := range env {
			lines = append(lines, name+"="+value)
		}
		return lines
	}
	if o, err := parse(t, nil, environ(env)); err != nil || o.dataDir != "/var/lib/tenure" || o.listenClientURLs[0] != "http://0.0.0.0:2379" {
		t.Errorf("the image's settings: %q, %v; want its volume and all addresses", o.dataDir, err)
	}
	for _, name := range []string{"ETCD_DATA_DIR", "TENURE_DATA_DIR"} {
		users := maps.Clone(env)
		users[name] = "/data"
		if o, err := parse(t, nil, environ(users)); err != nil || o.dataDir != "/data" {
			t.Errorf("with %s=/data the image has its data in %q, %v", name, o.dataDir, err)
		}
	}
	if !strings.Contains(text, "ln -s tenure bin/static/etcd") || !strings.Contains(text, "/src/bin/static/ /usr/bin/") {
		t.Error("the image has no link by the name etcd")
	}
}

// The settings of the package, and those that it suggests in comments, are settings.
func TestPackagedSettings(t *testing.T) {
	text := distFiles(t)["dist/debian/tenure.yaml"]
	if text == "" {
		t.Fatal("the package has no settings")
	}
	suggested := regexp.MustCompile(`(?m)^(# )?([a-z-]+: [^ ]+)$`).FindAllStringSubmatch(text, -1)
	var three []string
	for _, m := range suggested {
		if m[1] != "" {
			three = append(three, m[2])
		}
	}
	for name, want := range map[string]string{text: "default", strings.Join(three, "\n"): "a"} {
		file := filepath.Join(t.TempDir(), "tenure.yaml")
		if err := os.WriteFile(file, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		o, err := parse(t, []string{"--config-file", file}, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, name)
		}
		if o.name != want || o.dataDir != "/var/lib/tenure/member" || !strings.Contains(o.initialCluster, want+"=") {
			t.Errorf("the settings of %s are of %s in %s among %s", want, o.name, o.dataDir, o.initialCluster)
		}
	}
}

// A shell is told how to ask for words, in its own language.
func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef tenure", "fish": "complete -c tenure", "powershell": "Register-ArgumentCompleter"} {
		code, out, errs := ran(t, "completion", shell)
		if code != 0 || errs != "" || !strings.Contains(out, want) || !strings.Contains(out, cobra.ShellCompRequestCmd) {
			t.Errorf("tenure completion %s ends with %d and %q, and lacks %q or %q", shell, code, errs, want, cobra.ShellCompRequestCmd)
		}
		if path, err := exec.LookPath(shell); err == nil && shell == "bash" {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(out)
			if said, err := check.CombinedOutput(); err != nil {
				t.Errorf("bash does not read its script: %v, %s", err, said)
			}
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{{[]string{"lo"}, "lock"}, {[]string{"lease", "sh"}, "show"}, {[]string{"lock", "--eve"}, "--every"}} {
		if offers, _ := completed(t, tt.args...); !strings.Contains(strings.Join(offers, " "), tt.want) {
			t.Errorf("%q is offered %q, want %s", tt.args, offers, tt.want)
		}
	}
}
