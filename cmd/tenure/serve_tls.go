package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/tlsutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// tlsOptions are the flags of one port, with etcd's meanings.
type tlsOptions struct {
	cert, key              string
	dialCert, dialKey      string // shown to other members instead of cert
	ca, crl                string
	clientAuth             bool
	auto, selfMade         bool // the member makes the certificate, and has made it
	allowedCNs             []string
	allowedHostnames       []string
	sanUnchecked           bool // certificates need not name the address that they come from
	anyAddress             bool // the port is one to which certificates may come from anywhere
	prefix                 string
	nameFlag, hostnameFlag string
}

// tlsLimits are the flags that hold for both ports.
type tlsLimits struct {
	minVersion, maxVersion string
	cipherSuites           []string
	years                  uint // that certificates hold which members make for themselves
}

func (l *tlsLimits) register(f *pflag.FlagSet) {
	f.StringVar(&l.minVersion, "tls-min-version", string(tlsutil.TLSVersion12), "oldest `version` of TLS on both ports: TLS1.2 or TLS1.3")
	f.StringVar(&l.maxVersion, "tls-max-version", "", "newest `version` of TLS on both ports (default the newest there is)")
	f.UintVar(&l.years, "self-signed-cert-validity", 1, "`years` that certificates of --auto-tls and --peer-auto-tls hold")
	f.StringSliceVar(&l.cipherSuites, "cipher-suites", nil, "cipher `suites` of TLS 1.2 on both ports, by Go's names (default Go's choice)")
}

// registerClients registers the flags of the port for clients.
func (t *tlsOptions) registerClients(f *pflag.FlagSet) {
	t.anyAddress = true
	t.register(f, "", "clients", "client-")
}

// registerPeers registers the flags of the port for members.
func (t *tlsOptions) registerPeers(f *pflag.FlagSet) {
	t.register(f, "peer-", "other members", "peer-")
	f.StringVar(&t.dialCert, "peer-client-cert-file", "", "certificate `file` (PEM) to show when dialing other members (default that of --peer-cert-file)")
	f.StringVar(&t.dialKey, "peer-client-key-file", "", "private key `file` (PEM) of --peer-client-cert-file")
	f.BoolVar(&t.sanUnchecked, "peer-skip-client-san-verification", false, "accept a member's certificate from addresses that it does not name")
}

func (t *tlsOptions) register(f *pflag.FlagSet, prefix, who, clients string) {
	t.prefix, t.nameFlag, t.hostnameFlag = prefix, clients+"cert-allowed-cn", clients+"cert-allowed-hostname"
	f.StringVar(&t.cert, prefix+"cert-file", "", "certificate `file` (PEM) for "+who)
	f.StringVar(&t.key, prefix+"key-file", "", "private key `file` (PEM) for "+who)
	f.StringVar(&t.ca, prefix+"trusted-ca-file", "", "`file` (PEM) of authorities: "+who+" need a certificate of one of them")
	f.BoolVar(&t.auto, prefix+"auto-tls", false, "serve "+who+" with a certificate that this member makes, where none is given: nobody can tell it from a stranger's")
	f.BoolVar(&t.clientAuth, prefix+"client-cert-auth", false, "refuse "+who+" without a certificate of --"+prefix+"trusted-ca-file, which alone says so, too")
	f.StringVar(&t.crl, clients+"crl-file", "", "`file` (DER) of revoked certificates, read at each connection")
	f.StringSliceVar(&t.allowedCNs, t.nameFlag, nil, "common `names` of certificates that "+who+" may show (default any)")
	f.StringSliceVar(&t.allowedHostnames, t.hostnameFlag, nil, "`hosts`, one of which a certificate of "+who+" must be for (default any)")
}

// set lists the options that ask for TLS.
func (t *tlsOptions) set() bool {
	return t.clientAuth || len(t.allowedCNs)+len(t.allowedHostnames) > 0 ||
		slices.ContainsFunc([]string{t.cert, t.key, t.dialCert, t.dialKey, t.ca, t.crl}, func(s string) bool { return s != "" })
}

// check names an option that lacks another one, without which it would protect nothing.
func (t *tlsOptions) check(urls []string) error {
	flag := func(name string) string { return "--" + t.prefix + name }
	var needsCA string
	switch {
	case t.clientAuth:
		needsCA = flag("client-cert-auth")
	case t.crl != "":
		needsCA = "--" + strings.TrimSuffix(t.nameFlag, "cert-allowed-cn") + "crl-file"
	case len(t.allowedCNs) > 0:
		needsCA = "--" + t.nameFlag
	case len(t.allowedHostnames) > 0:
		needsCA = "--" + t.hostnameFlag
	}
	switch {
	case t.cert == "" || t.key == "":
		return fmt.Errorf("%v needs %s and %s", urls, flag("cert-file"), flag("key-file"))
	case (t.dialCert == "") != (t.dialKey == ""):
		return errors.New("--peer-client-cert-file and --peer-client-key-file: give both or none")
	case needsCA != "" && t.ca == "":
		return fmt.Errorf("%s needs %s: without it nobody has to show a certificate", needsCA, flag("trusted-ca-file"))
	case len(t.allowedCNs) > 0 && len(t.allowedHostnames) > 0:
		return fmt.Errorf("--%s and --%s exclude each other, as in etcd", t.nameFlag, t.hostnameFlag)
	case slices.Contains(append(slices.Clone(t.allowedCNs), t.allowedHostnames...), ""):
		return fmt.Errorf("--%s and --%s: a name is empty, which would admit certificates without a name", t.nameFlag, t.hostnameFlag)
	}
	return nil
}

// load makes a TLS configuration for accepting and for dialing, or none if the URLs are
// plain http: then options of TLS have no effect, as in etcd, and a warning names each URL.
// Certificates are read again at each handshake, so that a renewed one needs no restart, and
// so is the list of revoked ones.
func (t *tlsOptions) load(limits tlsLimits, urls []string, logger *slog.Logger) (*tls.Config, error) {
	info := transport.TLSInfo{
		CertFile: t.cert, KeyFile: t.key, ClientCertFile: t.dialCert, ClientKeyFile: t.dialKey,
		TrustedCAFile: t.ca, ClientCertAuth: t.clientAuth, CRLFile: t.crl,
		AllowedCNs: t.allowedCNs, AllowedHostnames: t.allowedHostnames,
	}
	if err := limits.apply(&info); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(urls, secureURL) {
		if t.auto || t.set() {
			t.warnUnused(urls, logger)
		}
		return nil, nil
	}
	if err := t.check(urls); err != nil {
		return nil, err
	}
	cfg, err := info.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("TLS of %v (--%scert-file and its like): %w", urls, t.prefix, err)
	}
	cfg.NextProtos = nil // gRPC negotiates its protocol itself, and members speak no HTTP
	cfg.RootCAs = cfg.ClientCAs
	cfg.InsecureSkipVerify = t.selfMade // there is nothing by which to judge those of the others
	if err := checkCRL(t.crl); err != nil {
		return nil, err
	}
	info.ConfigureCRLVerification(cfg)
	if !t.anyAddress && !t.sanUnchecked {
		checkAddresses(cfg)
	}
	return cfg, nil
}

// warnUnused says for each URL that its connections are not encrypted, though there are options of TLS.
func (t *tlsOptions) warnUnused(urls []string, logger *slog.Logger) {
	of := "clients"
	if t.prefix != "" {
		of = "members"
	}
	for _, u := range urls {
		scheme, rest, _ := strings.Cut(u, "://")
		logger.Warn("--"+t.prefix+"cert-file and its like have no effect: this URL is without TLS, so that "+of+
			" at it are not encrypted and need no certificate; write "+scheme+"s://"+rest+", or leave out these options", "url", u)
	}
}

// apply sets what both ports have in common.
func (l tlsLimits) apply(info *transport.TLSInfo) (err error) {
	if info.MinVersion, err = tlsutil.GetTLSVersion(l.minVersion); err != nil {
		return fmt.Errorf("--tls-min-version: %w", err)
	}
	if info.MaxVersion, err = tlsutil.GetTLSVersion(l.maxVersion); err != nil {
		return fmt.Errorf("--tls-max-version: %w", err)
	}
	if info.CipherSuites, err = tlsutil.GetCipherSuites(l.cipherSuites); err != nil {
		return fmt.Errorf("--cipher-suites: %w", err)
	}
	switch {
	case info.MaxVersion != 0 && info.MinVersion > info.MaxVersion:
		return fmt.Errorf("--tls-min-version %s is newer than --tls-max-version %s", l.minVersion, l.maxVersion)
	case info.MinVersion == tls.VersionTLS13 && len(info.CipherSuites) > 0:
		return errors.New("--cipher-suites are for TLS 1.2, which --tls-min-version TLS1.3 excludes")
	case len(info.CipherSuites) > 0 && !slices.ContainsFunc(info.CipherSuites, ofTLS12):
		return fmt.Errorf("--cipher-suites %s: none is of TLS 1.2, and those of TLS 1.3 are not for choice; for TLS 1.3 alone say --tls-min-version TLS1.3",
			strings.Join(l.cipherSuites, ","))
	}
	return nil
}

// ofTLS12 reports whether a connection of TLS 1.2 may use a cipher suite.
func ofTLS12(id uint16) bool {
	return slices.ContainsFunc(append(tls.CipherSuites(), tls.InsecureCipherSuites()...), func(c *tls.CipherSuite) bool {
		return c.ID == id && slices.Contains(c.SupportedVersions, tls.VersionTLS12)
	})
}

// checkCRL reads a list of revoked certificates once, so that one that cannot be read is
// noticed at the start and not by refused connections.
func checkCRL(path string) error {
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		_, err = x509.ParseRevocationList(raw)
	}
	if err != nil {
		return fmt.Errorf("revoked certificates (crl-file %s): %w; want DER (openssl crl -outform DER)", path, err)
	}
	return nil
}

// checkAddresses requires that callers come from an address that their certificate names, as
// etcd does for members: a stolen certificate is of no use elsewhere.
func checkAddresses(cfg *tls.Config) {
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := cfg.Clone()
		c.GetConfigForClient = nil
		before := c.VerifyConnection
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if before != nil {
				if err := before(state); err != nil {
					return err
				}
			}
			if len(state.PeerCertificates) == 0 {
				return nil
			}
			return checkAddress(hello.Context(), net.DefaultResolver, state.PeerCertificates[0], hello.Conn.RemoteAddr().String())
		}
		return c, nil
	}
}

// resolver is what of net.Resolver reports whether an address has a name.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupHost(ctx context.Context, host string) (addrs []string, err error)
}

// checkAddress judges as etcd's transport.checkCertSAN does: a certificate that names no
// address is good at all, one that names some at those, directly or by DNS.
func checkAddress(ctx context.Context, r resolver, cert *x509.Certificate, remote string) error {
	if len(cert.IPAddresses)+len(cert.DNSNames) == 0 {
		return nil
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return err
	}
	if len(cert.IPAddresses) > 0 && cert.VerifyHostname(host) == nil {
		return nil
	}
	names, _ := r.LookupAddr(ctx, host)
	for _, pattern := range cert.DNSNames {
		suffix, wild := strings.CutPrefix(pattern, "*")
		for _, name := range names {
			name = strings.TrimSuffix(name, ".")
			if name == pattern || wild && strings.HasPrefix(suffix, ".") && strings.HasSuffix(name, suffix) {
				return nil
			}
		}
		if wild {
			continue
		}
		if addrs, _ := r.LookupHost(ctx, pattern); slices.Contains(addrs, host) {
			return nil
		}
	}
	return fmt.Errorf("a certificate for %v %v came from %s, which it does not name (--peer-skip-client-san-verification accepts that)", cert.IPAddresses, cert.DNSNames, host)
}
