package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/rival"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// orderedConfig is the first line to a member's process. Its listener is inherited.
type orderedConfig struct {
	Kind    string
	ID      machine.NodeID
	Members map[machine.NodeID]string
	Dir     string
	Timeout time.Duration // after which silence a member is suspected; 0: the default
}

// orderedWork is each later line: it has clients broadcast one message after the other.
type orderedWork struct {
	Clients, Payload int
	Length           time.Duration // 0: one message each
}

// orderedDone is its answer to each.
type orderedDone struct {
	Error  string
	Leader machine.NodeID
	Times  []time.Duration // that messages took
	Ends   []machine.Mono  // when each was delivered, by the machine's clock
	CPU    time.Duration   // that the process took
}

// orderedMember is a process with a member in it.
type orderedMember struct {
	process *exec.Cmd
	pipe    io.WriteCloser
	say     *json.Encoder
	hear    *json.Decoder
}

// startOrderedMember starts a process for a member. It is killed when the context ends.
func startOrderedMember(ctx context.Context, cfg orderedConfig, ln net.Listener) (m *orderedMember, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	m = &orderedMember{process: exec.CommandContext(ctx, self, "ordered-member")}
	m.process.Args[0], m.process.Stderr, m.process.ExtraFiles = os.Args[0], os.Stderr, []*os.File{socket}
	m.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt ends us, and we end it
	if m.pipe, err = m.process.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := m.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.say, m.hear = json.NewEncoder(m.pipe), json.NewDecoder(answers)
	if err := m.process.Start(); err != nil {
		return nil, fmt.Errorf("start a process for a member: %w", err)
	}
	if err := m.say.Encode(cfg); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// work has the member work.
func (m *orderedMember) work(w orderedWork) (done orderedDone, err error) {
	if err = m.say.Encode(w); err == nil {
		err = m.hear.Decode(&done)
	}
	if err == nil && done.Error != "" {
		err = errors.New(done.Error)
	}
	return done, err
}

// fail kills the member, or stops it so that its connections stay open.
func (m *orderedMember) fail(hangs bool) error {
	if hangs {
		return m.process.Process.Signal(syscall.SIGSTOP)
	}
	return m.process.Process.Kill()
}

// close ends the process, in peace if it still listens.
func (m *orderedMember) close() error {
	m.pipe.Close()
	ended := time.AfterFunc(5*time.Second, func() { m.process.Process.Kill() })
	defer ended.Stop()
	return m.process.Wait()
}

// kill ends the process whatever it does.
func (m *orderedMember) kill() {
	m.process.Process.Kill()
	m.process.Wait()
}

// ordered is a member of any kind.
type ordered interface {
	Leader() machine.NodeID
	Close() error
}

func orderedMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "ordered-member",
		Short:  "Be a member that is measured (used by broadcast)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, out := json.NewDecoder(cmd.InOrStdin()), json.NewEncoder(cmd.OutOrStdout())
			var cfg orderedConfig
			if err := in.Decode(&cfg); err != nil {
				return err
			}
			ln, err := net.FileListener(os.NewFile(3, "listener"))
			if err != nil {
				return err
			}
			member, err := cfg.start(ln)
			if err != nil {
				return err
			}
			for {
				var w orderedWork
				if err := in.Decode(&w); err == io.EOF {
					return member.Close()
				} else if err != nil {
					return err
				}
				if err := out.Encode(w.do(cmd.Context(), member)); err != nil {
					return err
				}
			}
		},
	}
}

// algorithm is that of a kind of group.
func algorithm(kind string) func(*abcast.Config) {
	return func(a *abcast.Config) { a.Consensus.Plain = kind == "ct96" }
}

func (c orderedConfig) start(ln net.Listener) (ordered, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if c.Kind != "raft" {
		return broadcast.Start(broadcast.Config{
			ID: c.ID, Group: 1, Members: c.Members, Listener: ln, Dir: c.Dir, Timeout: c.Timeout, Logger: quiet,
			Algorithm: algorithm(c.Kind),
		})
	}
	var ids []machine.NodeID
	for id := machine.NodeID(1); int(id) <= len(c.Members); id++ {
		ids = append(ids, id)
	}
	return rival.Start(peer.Config{Self: c.ID, ClusterID: 1, Listener: ln, Peers: c.Members, Logger: quiet}, ids, c.Dir)
}

// do has clients broadcast, each its next message when the last is delivered.
func (w orderedWork) do(ctx context.Context, member ordered) (done orderedDone) {
	ctx, cancel := context.WithTimeout(ctx, w.Length+20*time.Second)
	defer cancel()
	say := func(payload []byte) error {
		if m, ok := member.(*broadcast.Node); ok {
			_, err := m.Broadcast(ctx, payload)
			return err
		}
		return member.(*rival.Node).Broadcast(ctx, payload)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	began, cpu := time.Now(), ownCPU()
	for range w.Clients {
		all.Go(func() {
			var times []time.Duration
			var ends []machine.Mono
			var err error
			for first := true; err == nil && (first || time.Since(began) < w.Length); first = false {
				t := time.Now()
				if err = say(make([]byte, w.Payload)); err == nil {
					times, ends = append(times, time.Since(t)), append(ends, clock.Now())
				}
			}
			mu.Lock()
			defer mu.Unlock()
			done.Times, done.Ends = append(done.Times, times...), append(done.Ends, ends...)
			if err != nil {
				done.Error = err.Error()
			}
		})
	}
	all.Wait()
	time.Sleep(time.Until(began.Add(w.Length))) // messages that others have ordered take CPU here, too
	done.Leader, done.CPU = member.Leader(), ownCPU()-cpu
	return done
}
