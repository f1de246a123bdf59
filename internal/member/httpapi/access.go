package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/host/quietlog"
)

// anyOf reports whether a list has a value. An empty one has all, and so has one with an asterisk.
func anyOf(list []string, value string) bool {
	return len(list) == 0 || slices.Contains(list, "*") || slices.Contains(list, value)
}

// guarded answers requests that browsers may be made to send by pages of others: those without TLS
// for hosts that are not whitelisted, and those of other origins. However many are refused, the log has a line a second about each kind.
func guarded(c Config, next http.Handler) http.Handler {
	var strangeHosts, commonNames quietlog.Log
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostname(r); r.TLS == nil && !anyOf(c.Hosts, host) {
			strangeHosts.Warn(c.Logger, "an HTTP request for a host that is not whitelisted was refused", "host", host)
			http.Error(w, fmt.Sprintf("tenure: there is no host %q here. A page in a browser may have been made to ask for it (DNS rebinding, CVE-2018-5702).\n"+
				"Use TLS, or name the host: tenure serve --host-whitelist %q", host, host), http.StatusMisdirectedRequest)
			return
		}
		rest, beta := strings.CutPrefix(r.URL.Path, "/v3beta/")
		if beta {
			r.URL.Path = "/v3/" + rest
		}
		if strings.HasPrefix(r.URL.Path, "/v3/") && c.Users != nil && c.Users() && named(r) {
			commonNames.Warn(c.Logger, "a request to the API in JSON was refused: the common name of its certificate is no user there", "from", r.RemoteAddr)
			http.Error(w, "tenure: the common name of a certificate is no user at the gateway; send a token, from a client whose certificate has none", http.StatusBadRequest)
			return
		}
		origin := r.Header.Get("Origin")
		if anyOf(c.Origins, "*") {
			origin = "*"
		}
		if origin == "*" || anyOf(c.Origins, origin) {
			w.Header().Add("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE")
			w.Header().Add("Access-Control-Allow-Origin", origin)
			w.Header().Add("Access-Control-Allow-Headers", "accept, content-type, authorization")
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusOK)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostname(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		return r.Host
	}
	return host
}

// named reports whether a client has shown a certificate with a common name.
func named(r *http.Request) bool {
	if r.TLS == nil {
		return false
	}
	for _, chain := range r.TLS.VerifiedChains {
		if len(chain) > 0 && chain[0].Subject.CommonName != "" {
			return true
		}
	}
	return false
}
