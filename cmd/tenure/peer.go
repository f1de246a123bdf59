package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/flease"
)

// peerOptions are the flags of tenure peer. Those of the peer itself end up in a flease URL,
// so that flags and URLs mean the same.
type peerOptions struct {
	self, peers, members string
	listen               string // the socket
	mode                 string
	bind                 string
	tmax, epsilon, round time.Duration
	cell                 int
	cluster, state       string
	clock                string
	cacert, cert, key    string
	output               cli.Output
	log                  cli.Log
}

func peerCommand() *cobra.Command {
	var o peerOptions
	cmd := &cobra.Command{
		Use:   "peer --self ADDRESS --peers ADDRESS,… [--listen SOCKET]",
		Short: "Run a peer: leases that machines keep among themselves, with no server and no disk",
		Long: `Runs this machine's peer. The peers keep leases among themselves: a majority of them
agrees on who holds what, in memory. Commands on this machine take leases through the
socket:

  tenure lock NAME --at flease:///run/tenure/peer.sock -- COMMAND

Its directory is made if it is missing. A peer that does not run as root may not make it
under /run: then make it beforehand (install -d -o USER /run/tenure), let systemd do so
(RuntimeDirectory=tenure), or choose another path with --listen.

The clocks of any two machines must differ by less than --epsilon at all times: run an
NTP client. A peer that was started is silent for --t-max and three times --epsilon,
because it does not know what it promised in the life before; with --state, a planned
restart is spared that. So leave it running, and do not start peers for single commands.

All peers need the same --peers (in any order), --t-max, --epsilon, --cell and --cluster.
They compare when they meet, and say what to change. Lists of peers that change come from a
file, --members, with lines "epoch 2" and "INDEX host:port"; it is looked at every second.
Raise the epoch by one with every change, and change the list again only when all peers have
logged that the view is active. Destroy old lists: who starts with one may hold what others do.

SIGTERM and SIGINT end the peer. What commands hold through it runs out by itself.`,
		Example: `  # On each of three machines, with its own --self.
  tenure peer --self a:7000 --peers a:7000,b:7000,c:7000

  # Commands use the peer of their machine.
  tenure lock nightly-report --at flease:///run/tenure/peer.sock -- ./report

  # Clocks that PTP keeps together, shorter leases, planned restarts without silence.
  tenure peer --self a:7000 --peers a:7000,b:7000,c:7000 \
    --epsilon 1ms --clock kernel --t-max 5s --state /var/lib/tenure

  # Peers that authenticate each other.
  tenure peer --self a:7000 --peers a:7000,b:7000,c:7000 \
    --cacert ca.pem --cert a.pem --key a-key.pem

  # How the peer at a socket does.
  tenure peer status --at flease:///run/tenure/peer.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, mode, err := o.complete()
			if err != nil {
				return err
			}
			return runPeer(cfg, o, mode, cmd.OutOrStdout())
		},
	}
	o.register(cmd.Flags())
	o.output.Register(cmd)
	cmd.AddCommand(peerStatusCommand())
	return cmd
}

func (o *peerOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.self, "self", "", "this peer's `address` among the peers', host:port; self if it can be told from the machine's")
	flags.StringVar(&o.peers, "peers", "", "the `addresses` of all peers, host:port with commas in between")
	flags.StringVar(&o.members, "members", "", "a `file` that lists the peers, instead of --peers")
	flags.StringVar(&o.listen, "listen", flease.DefaultSocket, "`path` of the socket that commands use")
	flags.StringVar(&o.mode, "mode", "660", "access to the socket, as chmod has it (octal `number`)")
	flags.StringVar(&o.bind, "bind", "", "`address` to listen at for peers, if it is another than --self, such as 0.0.0.0:7000")
	flags.DurationVar(&o.tmax, "t-max", flease.DefaultTMax, "how long a lease may last at most, lock delay included (`duration`)")
	flags.DurationVar(&o.epsilon, "epsilon", flease.DefaultEpsilon, "by how much the clocks of two peers differ at most (`duration`)")
	flags.DurationVar(&o.round, "round", 0, "how long a round trip takes at most (`duration`; default a fortieth of --t-max, from 5ms to 500ms)")
	flags.IntVar(&o.cell, "cell", 0, "`number` of peers that coordinate each resource (default 3, or all if there are fewer)")
	flags.StringVar(&o.cluster, "cluster", "", "`name` that all peers of the cluster share")
	flags.StringVar(&o.state, "state", "", "`directory` of this peer's for the file that spares a planned restart the silence")
	flags.StringVar(&o.clock, "clock", "trust", "`judge` of this host's clock. kernel: fall silent while the kernel does not vouch for its clock; or trust")
	flags.StringVar(&o.cacert, "cacert", "", "`file` with the authority whose certificates peers show")
	flags.StringVar(&o.cert, "cert", "", "`file` with this peer's certificate")
	flags.StringVar(&o.key, "key", "", "`file` with the certificate's key")
	o.log.Register(flags, slog.LevelInfo)
}

// complete makes a configuration of the flags, or returns an error that names the flag to
// change.
func (o peerOptions) complete() (flease.Config, fs.FileMode, error) {
	bad := func(format string, args ...any) (flease.Config, fs.FileMode, error) {
		return flease.Config{}, 0, cli.Usagef(format, args...)
	}
	switch {
	case o.self == "":
		return bad("which peer is this? write --self with its address in the list of peers")
	case (o.peers == "") == (o.members == ""):
		return bad("the peers are missing: write either --peers a:7000,b:7000,c:7000 or --members FILE")
	case o.listen == "":
		return bad("where do commands find the peer? leave --listen away, for %s, or give a path", flease.DefaultSocket)
	}
	mode, err := strconv.ParseUint(o.mode, 8, 9)
	if err != nil {
		return bad("--mode %s: want an octal number such as 660", o.mode)
	}
	list := o.peers
	if o.members != "" {
		path, err := filepath.Abs(o.members)
		if err != nil {
			return bad("--members: %w", err)
		}
		list = (&url.URL{Path: path}).EscapedPath()
	}
	q := url.Values{"t_max": {o.tmax.String()}, "epsilon": {o.epsilon.String()}, "clock": {o.clock}}
	for name, value := range map[string]string{
		"listen": o.bind, "cluster": o.cluster, "state": o.state, "cacert": o.cacert, "cert": o.cert, "key": o.key,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.round != 0 {
		q.Set("round", o.round.String())
	}
	if o.cell != 0 {
		q.Set("cell", strconv.Itoa(o.cell))
	}
	cfg, err := flease.ReadPeer(o.self + "@" + list + "?" + q.Encode())
	if err != nil {
		return cfg, 0, cli.Usage(err)
	}
	return cfg, fs.FileMode(mode), nil
}

// peerEvent is a line of tenure peer -o json.
type peerEvent struct {
	Event  string         `json:"event"` // started, serving, stopped
	Socket string         `json:"socket,omitempty"`
	Peer   *flease.Status `json:"peer,omitempty"`
}

// listenSocket names the remedy where the socket's directory is missing, or another's.
func listenSocket(path string, mode fs.FileMode) (net.Listener, error) {
	l, err := flease.ListenSocket(path, mode)
	if errors.As(err, new(*fs.PathError)) || errors.As(err, new(*net.OpError)) {
		dir := filepath.Dir(path)
		err = fmt.Errorf("%w: make the directory for the user that runs the peer (install -d -o USER %s), have systemd make it (RuntimeDirectory=tenure, for /run/tenure), or choose another path with --listen", err, dir)
	}
	return l, err
}

// runPeer runs a peer until a signal, or until it must not go on.
func runPeer(cfg flease.Config, o peerOptions, mode fs.FileMode, w io.Writer) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	floor := cli.HeapFloor(0)
	defer runtime.KeepAlive(floor)
	var err error
	if cfg.Logger, err = o.log.Logger(os.Stderr); err != nil {
		return err
	}
	l, err := listenSocket(o.listen, mode)
	if err != nil {
		return err
	}
	p, err := flease.Start(context.Background(), cfg)
	if err != nil {
		l.Close()
		if errors.Is(err, flease.ErrConfig) {
			return cli.Usage(err)
		}
		return err
	}
	print := func(e peerEvent, line string) {
		if o.output == "json" {
			_ = cli.Line(w, e)
		} else {
			fmt.Fprintln(w, line)
		}
	}
	s := p.Status()
	print(peerEvent{"started", o.listen, &s}, started(s, o.listen))
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	serving := make(chan struct{})
	go func() {
		if p.Ready(context.Background()) == nil {
			close(serving)
		}
	}()
	for {
		select {
		case <-serving:
			serving = nil
			s := p.Status()
			print(peerEvent{"serving", o.listen, &s}, "serving")
		case <-signals:
			err = closeUnless(signals, p.Close, func() { stopAtOnce(os.Stderr, os.Exit) })
			<-served
			print(peerEvent{Event: "stopped"}, "stopped")
			return err
		case err := <-served:
			return ended(p, err)
		}
	}
}

// echo is for how long more signals count as the first: timeout(1), and others, signal a process and then its group.
const echo = 500 * time.Millisecond

// closeUnless closes what takes its time, after a signal, unless there is another meanwhile: then it calls atOnce, too.
func closeUnless(signals <-chan os.Signal, close func() error, atOnce func()) error {
	begun := time.Now()
	go func() {
		for range signals {
			if time.Since(begun) >= echo {
				atOnce()
				return
			}
		}
	}()
	return close()
}

// stopAtOnce ends a process whose operator does not want to wait for its orderly end.
func stopAtOnce(w io.Writer, exit func(code int)) {
	fmt.Fprintln(w, "tenure: stopped at once by a second signal")
	exit(cli.ExitFailure)
}

// started is the first line of a peer.
func started(s flease.Status, socket string) string {
	return fmt.Sprintf("peer %d of %d at %s, for commands at %s; silent for %v", s.Self, len(s.Peers), s.Addr, socket, time.Duration(s.SilentMS)*time.Millisecond)
}

// ended closes a peer that serves no more, and says why: by its own word if it has one.
func ended(p interface {
	Err() error
	Close() error
}, err error) error {
	return errors.Join(fmt.Errorf("this peer cannot go on: %w", cmp.Or(p.Err(), err)), p.Close())
}

func peerStatusCommand() *cobra.Command {
	var at string
	var o cli.Output
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the peer at a socket, and the peers that it reaches",
		Example: "  tenure peer status --at flease:///run/tenure/peer.sock\n  tenure peer status -o json   # at TENURE_AT",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, ok, err := flease.SocketOfURL(at)
			if err != nil {
				return cli.Usage(err)
			}
			if !ok {
				return cli.Usagef("--at %q: want the socket of a peer, flease:///PATH", at)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			c, err := flease.Connect(ctx, flease.ClientConfig{Socket: path}) // whether a peer runs is the question
			if err != nil {
				return cli.Exit(cli.ExitUnavailable, err)
			}
			defer c.Close()
			s, err := c.Status(ctx)
			if err != nil {
				return cli.Exit(cli.ExitUnavailable, err)
			}
			return o.Print(cmd.OutOrStdout(), s, func() { peerTable(cmd.OutOrStdout(), s) })
		},
	}
	storeFlag(cmd.Flags(), &at)
	o.Register(cmd)
	return cmd
}

func peerTable(w io.Writer, s flease.Status) {
	state := "serving"
	if !s.Serving {
		state = fmt.Sprintf("silent for another %v", time.Duration(s.SilentMS)*time.Millisecond)
	}
	fmt.Fprintf(w, "peer %d at %s: %s; epoch %d, %d claims, t_max %v, ε %v\n", s.Self, s.Addr, state, s.Epoch, s.Claims,
		time.Duration(s.TMaxMS)*time.Millisecond, time.Duration(s.EpsilonMS)*time.Millisecond)
	if s.Clock != "" {
		fmt.Fprintln(w, s.Clock)
	}
	if s.Incomplete {
		fmt.Fprintln(w, "the records of --every are incomplete until enough of the others have shown theirs")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PEER\tADDRESS\tCONNECTED\tRTT\tERROR")
	for _, m := range s.Peers {
		rtt := "-"
		if m.RTTMS > 0 {
			rtt = fmt.Sprintf("%.2fms", m.RTTMS)
		}
		fmt.Fprintf(tw, "%d\t%s\t%v\t%s\t%s\n", m.Index, m.Addr, m.Connected, rtt, strings.ReplaceAll(m.Error, "\n", "; "))
	}
	tw.Flush()
}
