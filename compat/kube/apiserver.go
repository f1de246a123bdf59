package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// token is what the client shows: any is taken that is in the file of tokens.
const token = "a-token-of-the-test"

// build returns the path of a kube-apiserver.
func build(ctx context.Context) (string, error) {
	if path := os.Getenv("TENURE_KUBE_APISERVER"); path != "" {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "tenure-compat", "kube-apiserver")
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "k8s.io/kubernetes/cmd/kube-apiserver")
	cmd.Dir = filepath.Join(filepath.Dir(file), "apiserver")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kube-apiserver: %w\n%s", err, out)
	}
	return path, nil
}

// apiserver is a running kube-apiserver and a client of it.
type apiserver struct {
	url  string
	log  string // file
	http *http.Client
	cmd  *exec.Cmd
}

// start runs a kube-apiserver over a cluster, until stop.
func start(ctx context.Context, dir string, endpoints []string) (*apiserver, error) {
	program, err := build(ctx)
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	keyFile, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := errors.Join(
		os.WriteFile(keyFile, pemKey, 0o600),
		os.WriteFile(tokens, []byte(token+",tester,1,system:masters\n"), 0o600),
	); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	servers := make([]string, len(endpoints))
	for i, e := range endpoints {
		servers[i] = "http://" + e
	}
	a := &apiserver{
		url: fmt.Sprintf("https://127.0.0.1:%d", port), log: filepath.Join(dir, "apiserver.log"),
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // its certificate is of its own making
		}},
	}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	a.cmd = exec.Command(program,
		"--etcd-servers="+strings.Join(servers, ","),
		"--etcd-compaction-interval=5s",
		"--etcd-count-metric-poll-period=2s",
		"--event-ttl=5m",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+filepath.Join(dir, "certs"),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keyFile, "--service-account-signing-key-file="+keyFile,
		"--disable-admission-plugins=ServiceAccount",
		"--authorization-mode=AlwaysAllow", "--token-auth-file="+tokens,
	)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if err = a.do(ctx, http.MethodGet, "/readyz", nil, nil); err == nil {
			return a, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	a.stop()
	return nil, fmt.Errorf("kube-apiserver is not ready: %w\n%s", err, a.tail())
}

func (a *apiserver) stop() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// tail is the end of its log.
func (a *apiserver) tail() string {
	b, _ := os.ReadFile(a.log)
	return string(b[max(0, len(b)-4000):])
}

// refusal is an answer other than 2xx.
type refusal struct {
	code int
	body string
}

func (r refusal) Error() string { return fmt.Sprintf("%d: %.300s", r.code, r.body) }

// code returns the status of a refusal, 0 if err is none.
func code(err error) int {
	r := refusal{}
	errors.As(err, &r)
	return r.code
}

// open sends a request and returns the answer's body.
func (a *apiserver) open(ctx context.Context, method, path string, object any) (io.ReadCloser, error) {
	var body io.Reader
	if object != nil {
		b, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return nil, errors.Join(refusal{resp.StatusCode, string(b)}, err)
}

// do sends a request and decodes the answer into result, unless it is nil.
func (a *apiserver) do(ctx context.Context, method, path string, object, result any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := a.open(ctx, method, path, object)
	if err != nil {
		return err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err == nil && result != nil {
		err = json.Unmarshal(b, result)
	}
	return err
}
