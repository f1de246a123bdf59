package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const readyLine = "ready to serve client requests"

// Member is one server process, with the data needed to start it again.
type Member struct {
	Name     string
	Endpoint string // for clients, host:port
	PeerURL  string // as the other members have it
	DataDir  string
	Log      string // file of everything the member printed, over restarts

	kind   Kind
	binary string
	listen string // for other members, as it has it itself
	args   []string
	argsOf func(n int) []string // more of them, of the n-th start; may be nil
	env    []string
	envOf  func(n int) []string // likewise

	mu     sync.Mutex
	joins  bool // it is none of the first members
	starts int
	cmd    *exec.Cmd     // nil when not running
	exited chan struct{} // closed when cmd's process is gone
}

// peerAddress is where it listens for the others, as host:port.
func (m *Member) peerAddress() string { return strings.TrimPrefix(m.listen, "http://") }

// Start starts the member, over what its data directory holds, and waits until
// it is ready, for at most a minute.
func (m *Member) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.Launch(); err != nil {
		return err
	}
	return m.WaitReady(ctx)
}

// Launch starts the process and does not wait for it to be ready.
func (m *Member) Launch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return fmt.Errorf("%s runs already", m.Name)
	}
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	fmt.Fprintf(log, "%s%s\n", startMark, time.Now().Format(time.RFC3339Nano))
	args := slices.Clone(m.args)
	if m.argsOf != nil {
		args = append(args, m.argsOf(m.starts)...)
	}
	cmd := exec.Command(m.binary, args...)
	cmd.Env = append(os.Environ(), m.env...)
	if m.envOf != nil {
		cmd.Env = append(cmd.Env, m.envOf(m.starts)...)
	}
	m.starts++
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	// The kernel ties the child's life to the thread that forks it, so that
	// thread is kept until the child is gone.
	started, exited := make(chan error), make(chan struct{})
	go func() {
		defer close(exited)
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.cmd, m.exited = cmd, exited
	return nil
}

// Renew makes another member in place of one that was removed and does not run: without
// data, to be started when it was added. Links have to Know its identity.
func (m *Member) Renew() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return fmt.Errorf("%s runs", m.Name)
	}
	if !m.joins {
		m.args, m.joins = append(m.args, "--initial-cluster-state=existing"), true
	}
	return os.RemoveAll(m.DataDir)
}

// Upgrade has later starts run another program, over the same data: another version of the server.
func (m *Member) Upgrade(binary string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.binary = binary
}

// startMark begins the line that separates runs in the log.
const startMark = "---- started "

// WaitReady waits for the line in the log that says the member answers clients.
func (m *Member) WaitReady(ctx context.Context) error {
	m.mu.Lock()
	exited := m.exited
	m.mu.Unlock()
	for {
		if strings.Contains(m.lastRun(), readyLine) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", m.Name, ctx.Err(), m.tail())
		case <-exited:
			return fmt.Errorf("%s exited before it was ready\n%s", m.Name, m.tail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Tail is the end of what the member printed since its last start.
func (m *Member) Tail() string { return m.tail() }

// lastRun is what the member printed since its last start.
func (m *Member) lastRun() string {
	f, err := os.Open(m.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := io.ReadAll(f)
	return string(all[strings.LastIndex(string(all), startMark)+1:])
}

// tail is the end of the last run's log, for an error text.
func (m *Member) tail() string {
	var lines []string
	scan := bufio.NewScanner(strings.NewReader(m.lastRun()))
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Kill ends the process with SIGKILL and waits until it is gone. A member that
// does not run is left alone.
func (m *Member) Kill() { m.end(syscall.SIGKILL) }

// Terminate ends the process with SIGTERM and waits until it is gone; after ten
// seconds it is killed and false returned.
func (m *Member) Terminate() bool { return m.end(syscall.SIGTERM) }

func (m *Member) end(sig syscall.Signal) (willing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return true
	}
	m.cmd.Process.Signal(sig)
	willing = true
	select {
	case <-m.exited:
	case <-time.After(10 * time.Second):
		willing = false
		m.cmd.Process.Kill()
		<-m.exited
	}
	m.cmd = nil
	return willing
}

// Pause stops the process with SIGSTOP; Resume lets it go on. Both do nothing
// when it does not run.
func (m *Member) Pause()  { m.signal(syscall.SIGSTOP) }
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(sig syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		m.cmd.Process.Signal(sig)
	}
}

// Starts is how often the member was started.
func (m *Member) Starts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts
}

// Running reports whether the process was started and has not ended, by us or by itself.
func (m *Member) Running() bool {
	started, ended := m.process()
	return started && !ended
}

// process reports whether the process was started, and whether it has ended by itself since.
func (m *Member) process() (started, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return false, false
	}
	select {
	case <-m.exited:
		return true, true
	default:
		return true, false
	}
}

// collapsed reports whether the process was started and has ended by itself.
func (m *Member) collapsed() bool {
	started, ended := m.process()
	return started && ended
}

func (m *Member) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

// PID is the running process, 0 if none runs.
func (m *Member) PID() int { return m.pid() }

// CPU is the processor time, user and system, of the running process.
func (m *Member) CPU() time.Duration { return processCPU(m.pid()) }

// Memory is the resident memory of the running process, in bytes.
func (m *Member) Memory() int64 { return processMemory(m.pid()) }

// Status asks this member for its Maintenance.Status.
func (m *Member) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	cli, err := Client(m.Endpoint)
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	return cli.Status(ctx, m.Endpoint)
}

func (m *Member) leads(ctx context.Context) bool {
	if !m.Running() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := m.Status(ctx)
	return err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId
}
