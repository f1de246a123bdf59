package redis

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func TestTLS(t *testing.T) {
	lender := httptest.NewTLSServer(nil) // of a certificate for 127.0.0.1
	defer lender.Close()
	h, err := miniredis.RunTLS(&tls.Config{Certificates: lender.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	o := Options{Addr: h.Addr(), TLS: &tls.Config{}}
	if err := Init(t.Context(), o, header(0, 1)); err == nil {
		t.Error("a certificate that nobody vouches for is trusted")
	}
	o.TLS.RootCAs = lender.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if err := Init(t.Context(), o, header(0, 1)); err != nil {
		t.Fatal(err)
	}
	do(t, opened(t, o), put("x", 1, ann, "a"))
}
