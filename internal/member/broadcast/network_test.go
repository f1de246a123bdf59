package broadcast

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// oneCertificate is a configuration that shows a certificate of the loopback, and wants to be shown it.
func oneCertificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// With Config.TLS a member takes connections by TLS, and makes them so.
func TestMembersSpeakTLS(t *testing.T) {
	secure := oneCertificate(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			err = tls.Server(conn, secure).Handshake()
		}
		dialed <- err
	}()
	n := minorityOf(t, map[machine.NodeID]string{2: ln.Addr().String()}, slog.New(slog.DiscardHandler), func(c *Config) { c.TLS = secure })
	if err := patience.Within(t, dialed, "the member connects"); err != nil {
		t.Errorf("a member with TLS connects to another without it: %v", err)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", n.cfg.Members[1], secure)
	if err != nil {
		t.Fatalf("a member with TLS takes connections without it: %v", err)
	}
	conn.Close()
}

// Config.Dial makes the connections, to where each member is.
func TestDialOfTheConfiguration(t *testing.T) {
	dialed := make(chan string, 99)
	minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2"}, slog.New(slog.DiscardHandler), func(c *Config) {
		c.Dial = func(_ context.Context, addr string) (net.Conn, error) {
			select {
			case dialed <- addr:
			default:
			}
			return nil, errors.New("nobody is there")
		}
	})
	select {
	case addr := <-dialed:
		if addr != "127.0.0.1:2" {
			t.Errorf("a member connects to %s, and the other one is at 127.0.0.1:2", addr)
		}
	case <-patience.Soon(t).Done():
		t.Error("a member does not connect by Config.Dial")
	}
}

// A member is connected with another when it listens to that one. A process whose directory is not
// known, or is another one, counts as away.
func TestWhoIsNotListenedToIsAway(t *testing.T) {
	n, _, _, _ := newReceiver(t)
	if err := n.Waiting(); err != nil {
		t.Errorf("both members are there, and one waits because of %v", err)
	}
	n.mu.Lock()
	delete(n.known, 2)
	n.mu.Unlock()
	if err := n.Waiting(); err == nil || !strings.Contains(err.Error(), "of the members [1 2], and is not connected with [2]") {
		t.Errorf("nobody listens to member 2, and member 1 waits because of %v", err)
	}
	n.counts = make(chan struct{}) // as that of a new directory
	if err := n.Waiting(); err == nil || !strings.Contains(err.Error(), "takes part when 1 others have noted it; of [1 2] it is not connected with [2]") {
		t.Errorf("a new directory of one of two waits because of %v", err)
	}
	n.mu.Lock()
	n.group.Members = nil
	n.mu.Unlock()
	if err := n.Waiting(); !errors.Is(err, ErrNotMember) {
		t.Errorf("a process that joins waits because of %v, want %v", err, ErrNotMember)
	}
}

// A member speaks with new members, and with those that were removed until the others can do without them. From then
// on it tells them that they were removed.
func TestConnectionsWithNewMembers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := map[machine.NodeID]string{1: "", 2: "127.0.0.1:2", 3: ln.Addr().String(), 4: "127.0.0.1:4"}
	n := minorityOf(t, map[machine.NodeID]string{2: at[2], 3: at[3]}, slog.New(slog.DiscardHandler))
	at[1] = n.cfg.Members[1]
	refused := make(chan error, 99)
	three, err := peer.New(peer.Config{
		Self: 3, ClusterID: n.cfg.cluster(), Listener: ln, Peers: map[machine.NodeID]string{1: at[1]}, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(machine.NodeID, [][]byte) {}, Refused: func(_ machine.NodeID, err error) { refused <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer three.Close()
	patience.Until(t, "members 1 and 3 are connected", func() bool { return n.peers.Stats(3).Connected && three.Stats(1).Connected })
	ended, cancel := context.WithCancel(patience.Soon(t))
	cancel()
	speaks := func(when string, want ...machine.NodeID) {
		t.Helper()
		for id := machine.NodeID(2); id <= 4; id++ {
			err := n.peers.SendStream(ended, id, nil, strings.NewReader(""))
			if has := !errors.Is(err, peer.ErrUnknownMember); has != slices.Contains(want, id) {
				t.Errorf("%s: member 1 has connections with %d: %v, want those with %v", when, id, has, want)
			}
		}
	}
	group := func(first uint64, removed []machine.NodeID, members ...machine.NodeID) (g abcast.Group) {
		g.First = first
		for _, id := range members {
			g.Members = append(g.Members, abcast.Member{ID: id, Address: at[id]})
		}
		for _, id := range removed {
			g.Removed = append(g.Removed, abcast.Member{ID: id, Address: at[id]})
		}
		return g
	}
	speaks("at first", 2, 3)
	n.handle([]abcast.Outcome{abcast.Began{Group: group(5, []machine.NodeID{3}, 1, 2, 4)}})
	speaks("when 4 has come and 3 is removed", 2, 3, 4)
	select {
	case err := <-refused:
		t.Errorf("member 3 is needed yet, and is refused: %v", err)
	default:
	}
	n.handle([]abcast.Outcome{abcast.Established{Group: group(5, []machine.NodeID{3}, 1, 2, 4)}})
	speaks("when 3 is not needed any more", 2, 4)
	select {
	case err := <-refused:
		if !errors.Is(err, peer.ErrRemoved) {
			t.Errorf("a member that was removed is told %v, want %v", err, peer.ErrRemoved)
		}
	case <-patience.Soon(t).Done():
		t.Error("a member that was removed is not told so")
	}
}
