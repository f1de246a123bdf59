package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// httpOptions are the flags of what is served by HTTP, with etcd's meanings.
type httpOptions struct {
	metricsURLs    []string
	metrics        string
	gateway, pprof bool
	hosts, origins []string
}

func (o *httpOptions) register(f *pflag.FlagSet) {
	f.StringSliceVar(&o.metricsURLs, "listen-metrics-urls", nil, "`URLs` to listen on for /metrics and health checks, besides those for clients")
	f.StringVar(&o.metrics, "metrics", "basic", "`kind` of metrics: basic, or extensive, which adds the time that calls take, by method")
	f.BoolVar(&o.gateway, "enable-grpc-gateway", true, "serve the API in JSON, below /v3/")
	f.StringSliceVar(&o.hosts, "host-whitelist", []string{"*"}, "`hosts` for which HTTP requests without TLS may be; * is any")
	f.StringSliceVar(&o.origins, "cors", []string{"*"}, "`origins` whose pages in browsers may send HTTP requests; * is any")
	f.BoolVar(&o.pprof, "enable-pprof", false, "serve profiles of this process at /debug/pprof/ to all clients")
}

// setIn gives the options to a member, and opens its listeners for metrics.
func (o *httpOptions) setIn(cfg *server.Config, sockets listenOptions) (err error) {
	switch o.metrics {
	case "basic":
	case "extensive":
		cfg.Figures.Extensive = true
	default:
		return fmt.Errorf("--metrics %q: want basic or extensive", o.metrics)
	}
	if err := checkOrigins(o.origins); err != nil {
		return err
	}
	cfg.HTTP = server.HTTP{NoGateway: !o.gateway, Hosts: o.hosts, Origins: o.origins, Profiles: o.pprof}
	defer func() {
		if err != nil {
			for _, l := range cfg.Metrics {
				l.Close()
			}
		}
	}()
	for _, u := range o.metricsURLs {
		l, err := sockets.listenMetrics(u, cfg.ClientTLS)
		if err != nil {
			return err
		}
		cfg.Metrics = append(cfg.Metrics, l)
	}
	return nil
}

// checkOrigins refuses what no browser sends as the origin of a page, and so would permit nothing. An origin may lack a
// port, unlike in etcd, as browsers leave out that of the scheme.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return fmt.Errorf("--cors %q: want * or origins such as https://example.com:8443, without a path", origin)
		}
	}
	return nil
}

// listenMetrics listens on a URL for metrics. One of https has the certificate for clients.
func (o listenOptions) listenMetrics(raw string, secure *tls.Config) (net.Listener, error) {
	https := secureURL(raw)
	if https && secure == nil {
		return nil, fmt.Errorf("--listen-metrics-urls %s needs the certificate for clients: --listen-client-urls https://… and --cert-file", raw)
	}
	l, err := o.listen(raw)
	if err != nil || !https {
		return l, err
	}
	return tls.NewListener(l, secure), nil
}
