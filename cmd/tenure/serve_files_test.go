package main

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/yaml"
)

// etcdFile is a file that starts an etcd, with addresses and a directory of this test's.
type etcdFile struct {
	text                      string
	dir, client, peer, metric string
}

func readEtcdFile(t *testing.T, name string) etcdFile {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata/etcd", name))
	if err != nil {
		t.Fatal(err)
	}
	at := freeAddresses(t, 3)
	f := etcdFile{dir: t.TempDir(), client: at[0], peer: at[1], metric: at[2]}
	f.text = strings.NewReplacer("@client", f.client, "@peer", f.peer, "@metrics", f.metric, "@dir", f.dir).Replace(string(raw))
	return f
}

// A file that starts an etcd starts a member as it is: kubeadm's manifest, the environments of a chart and of
// Patroni's demonstration, a unit of systemd, a configuration file with all keys. The member serves, with TLS where
// the file says so, and names what has no effect.
func TestServeByTheFilesOfEtcd(t *testing.T) {
	for _, tt := range []struct {
		file   string
		secure bool
		// command is the command line and the environment that the file makes.
		command func(t *testing.T, f etcdFile) (args, environ []string)
		told    string // what has no effect
	}{
		{file: "kubeadm.yaml", secure: true, told: "snapshot-count", command: manifest},
		{file: "bitnami.env", told: "", command: func(t *testing.T, f etcdFile) ([]string, []string) {
			return nil, strings.Fields(f.text)
		}},
		{file: "patroni.env", command: func(t *testing.T, f etcdFile) ([]string, []string) {
			return []string{"--name", "etcd1", "--initial-advertise-peer-urls", "http://" + f.peer, "-advertise-client-urls", "http://" + f.client, "--data-dir", f.dir + "/data"}, strings.Fields(f.text)
		}},
		{file: "etcd.service", told: "enable-v2, max-snapshots", command: unit},
		{file: "etcd.conf.yml", secure: true, command: func(t *testing.T, f etcdFile) ([]string, []string) {
			return []string{"--config-file", write(t, "etcd.conf.yml", f.text)}, nil
		}, told: "discovery-fallback, logger, max-snapshots, max-wals, proxy-dial-timeout, proxy-failure-wait, proxy-read-timeout, proxy-refresh-interval, proxy-write-timeout, snapshot-count"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			f := readEtcdFile(t, tt.file)
			cfg := clientv3.Config{Endpoints: []string{"http://" + f.client}}
			if tt.secure {
				cfg = clientv3.Config{Endpoints: []string{"https://" + f.client}, TLS: pki(t, filepath.Join(f.dir, "pki"))}
			}
			args, environ := tt.command(t, f)
			s := &served{cmd: exec.Command("tenure", append([]string{"serve"}, args...)...)}
			s.cmd.Env, s.cmd.Dir = append(os.Environ(), environ...), f.dir
			s.cmd.Stderr = &s.log
			if err := s.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
			if err := puts(t, cfg, time.Minute); err != nil {
				t.Fatalf("a put: %v; the member says\n%s", err, s.log.String())
			}
			told := "tenure: settings of etcd's that have no effect here: "
			if tt.told == "" && strings.Contains(s.log.String(), told) || tt.told != "" && !strings.Contains(s.log.String(), told+tt.told+"\n") {
				t.Errorf("want it told that %q have no effect, and nothing else:\n%s", tt.told, s.log.String())
			}
			if tt.secure {
				if err := puts(t, clientv3.Config{Endpoints: cfg.Endpoints, TLS: &tls.Config{RootCAs: cfg.TLS.RootCAs}}, time.Second); err == nil {
					t.Error("a client without a certificate was served")
				}
				resp, err := http.Get("http://" + f.metric + "/health")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"health":"true"`) {
					t.Errorf("health at the port for metrics: %q, %v", text, err)
				}
			}
			if tt.file == "etcd.service" {
				for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
					text, err := os.ReadFile(filepath.Join(f.dir, "etcd.log"))
					if err == nil && strings.Contains(string(text), "ready to serve client requests") {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("the log file of the unit has %q, %v", text, err)
					}
				}
			}
		})
	}
}

// pki makes the files to which the files of etcd point, and returns what a client of theirs has.
func pki(t *testing.T, dir string) *tls.Config {
	t.Helper()
	ca, cert, key := certificates(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{ca: "ca.crt", cert: "server.crt", key: "server.key"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	of := tlsOptions{cert: dir + "/server.crt", key: dir + "/server.key", ca: dir + "/ca.crt"}
	c, err := of.load(tlsLimits{minVersion: "TLS1.2"}, []string{"https://"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// manifest is the command of a pod, without the name of the program.
func manifest(t *testing.T, f etcdFile) (args, _ []string) {
	t.Helper()
	var pod struct {
		Spec struct {
			Containers []struct{ Command []string }
		}
	}
	if err := yaml.Unmarshal([]byte(f.text), &pod); err != nil {
		t.Fatal(err)
	}
	return pod.Spec.Containers[0].Command[1:], nil
}

// unit is the environment of a unit of systemd.
func unit(t *testing.T, f etcdFile) (_, environ []string) {
	t.Helper()
	for line := range strings.Lines(f.text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
			environ = append(environ, strings.ReplaceAll(v, "%H", "host1"))
		}
	}
	return nil, environ
}
