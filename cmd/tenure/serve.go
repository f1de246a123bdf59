package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a member of the lease server, which etcd's clients can use",
		Long: `Run a member of the lease server: a key-value store with leases, watches and
transactions over etcd v3's gRPC API, replicated among the members.

Flags have etcd's names and meanings. Each can also be set by the environment
(--data-dir is TENURE_DATA_DIR or ETCD_DATA_DIR) and in the YAML file that
--config-file names (data-dir: …, as etcd's file has it). A flag wins over
TENURE_*, that over ETCD_*, and that over the file. What etcd has and this has not is
told and ignored, unless it protects something: then it is an error.

Started by the name etcd, which a link to this program may have, it is this command.

It logs "ready to serve client requests" when it has found a leader and caught up, and tells
systemd (Type=notify).
SIGTERM and SIGINT hand leadership over and exit with 0. A member that was removed from its
cluster exits with 77, also when it is started again: its data directory is of no more use.`,
		Example: `  # One member, on this machine only.
  tenure serve

  # Three members; the same --initial-cluster on each.
  tenure serve --name a --listen-peer-urls http://10.0.0.1:2380 --initial-advertise-peer-urls http://10.0.0.1:2380 \
    --listen-client-urls http://10.0.0.1:2379,http://127.0.0.1:2379 --advertise-client-urls http://10.0.0.1:2379 \
    --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380

  # A fourth, as this prints it: tenure member add d --learner --peer-urls http://10.0.0.4:2380
  tenure serve --name d --initial-cluster-state existing --listen-peer-urls http://10.0.0.4:2380 \
    --initial-advertise-peer-urls http://10.0.0.4:2380 --listen-client-urls http://10.0.0.4:2379 \
    --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380,d=http://10.0.0.4:2380

  # With TLS, only for clients that have a certificate.
  tenure serve --listen-client-urls https://0.0.0.0:2379 --advertise-client-urls https://db1:2379 \
    --cert-file db1.pem --key-file db1-key.pem --client-cert-auth --trusted-ca-file ca.pem`,
		Version: versionOf().Tenure,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && proxies[args[0]] != "" {
				return cli.Usagef("there is no %s here: %s", args[0], proxies[args[0]])
			}
			if len(args) > 0 {
				return cli.Usagef("%q is not a flag; a switch that has a value is written --NAME=%s", args[0], args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			unknown, err := o.complete(cmd.Flags(), os.Environ())
			if err != nil {
				return cli.Usage(err)
			}
			if ignored := ignoredFlags(cmd.Flags()); len(ignored) > 0 {
				fmt.Fprintf(os.Stderr, "tenure: settings of etcd's that have no effect here: %s\n", strings.Join(ignored, ", "))
			}
			if len(unknown) > 0 {
				fmt.Fprintf(os.Stderr, "tenure: variables that are no settings: %s\n", strings.Join(unknown, ", "))
			}
			return serve(cmd.Context(), o)
		},
	}
	o.register(cmd.Flags())
	cmd.SetVersionTemplate(versionOf().etcdLines())
	cmd.Flags().Bool("version", false, "print the versions of etcd's API and of this program, as etcd does")
	return cmd
}

// endedBy gives the end of a member that was removed an exit code of its own: no start helps it.
func endedBy(err error) error {
	if errors.Is(err, node.ErrRemoved) {
		return cli.Exit(cli.ExitRemoved, err)
	}
	return err
}

// serve runs a member until it is told to stop or cannot go on.
func serve(ctx context.Context, o serveOptions) error {
	logger, closeLog, err := o.outputs.Logger(o.log)
	if err != nil {
		return cli.Usage(err)
	}
	defer closeLog()
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		// gRPC and its gateway print a line for each connection that a client cuts.
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
	failed := make(chan error, 1)
	cfg, err := o.config(logger, firstTo(failed))
	if err != nil {
		return cli.Usage(err)
	}
	defer runtime.KeepAlive(respectMemory(memoryLimit(os.DirFS("/"))))

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	starting, started := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT) // signals gets them, too
	defer started()
	cfg.Node.Abort = starting.Done()
	s, err := server.Start(cfg)
	if errors.Is(err, node.ErrAborted) {
		logger.Info("stopped before it served")
		return nil
	}
	if err != nil && (cfg.Node.Check() != nil || cfg.Logins.Check() != nil) {
		return cli.Usage(err)
	}
	if err != nil {
		return endedBy(err)
	}
	ready, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if s.Node.Ready(ready) == nil {
			logger.Info("ready to serve client requests", "name", o.name, "clients", o.listenClientURLs,
				"member", fmt.Sprintf("%x", s.Node.ID()), "cluster", fmt.Sprintf("%x", s.Node.ClusterID()))
			notify(logger, daemon.SdNotifyReady)
		}
	}()
	select {
	case err := <-failed:
		// Nothing that is not durable was acknowledged; there is nothing to save.
		return endedBy(fmt.Errorf("this member cannot go on: %w", err))
	case sig := <-signals:
		logger.Info("stopping", "signal", sig.String())
		notify(logger, daemon.SdNotifyStopping)
	case <-ctx.Done():
	}
	cancel()
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = closeUnless(signals, func() error { s.Shutdown(end); return nil }, func() { stopAtOnce(os.Stderr, os.Exit) })
	logger.Info("stopped")
	return nil
}

// firstTo sends the first error that it is told. It waits for no reader, who leaves with that one.
func firstTo(failed chan<- error) func(error) {
	return func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
}

// respectMemory makes the collector keep below the process's limit, in bytes, if that is known.
// It leaves a tenth to memory that the collector does not count. An operator's own GOMEMLIMIT
// is respected. It returns the floor of the heap.
func respectMemory(limit int64) (floor []byte) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	return cli.HeapFloor(limit)
}
