package server

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// firstCall is how long a connection of HTTP/2 may be without a call until it is taken for one
	// of gRPC: clients connect long before they call.
	firstCall = 2 * time.Second
	// headMax bounds the bytes that are read to find out which server is meant: a client may send
	// 64 KiB of data before it gets more room.
	headMax = 96 << 10
	// headersMax bounds the headers of a first call.
	headersMax = 32 << 10
)

// lane finds out which server a connection is for: gRPC's, if it speaks HTTP/2 and its first call
// is one of gRPC. told is called as soon as the protocol is known.
func (p *port) lane(c *guest, told func()) (*lane, error) {
	if p.grpc == nil {
		return p.http, nil
	}
	second, err := c.speaksHTTP2()
	if err != nil {
		return nil, err
	}
	told()
	if !second {
		return p.web()
	}
	is, err := c.callsGRPC(p.streams, p.firstCall)
	if err != nil {
		return nil, err
	}
	if is {
		return p.grpc, nil
	}
	return p.web()
}

// web is the lane for what is not gRPC.
func (p *port) web() (*lane, error) {
	if p.http == nil {
		return nil, errors.New("server: this port is for gRPC alone")
	}
	return p.http, nil
}

// speaksHTTP2 reports whether a connection begins as those of HTTP/2 do.
func (c *guest) speaksHTTP2() (bool, error) {
	for len(c.head) < len(http2.ClientPreface) {
		b := make([]byte, len(http2.ClientPreface)-len(c.head))
		n, err := c.Conn.Read(b)
		c.head = append(c.head, b[:n]...)
		if !strings.HasPrefix(http2.ClientPreface, string(c.head)) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// callsGRPC reports whether the first call of a connection of HTTP/2 is one of gRPC. gRPC's clients
// call when they have the server's settings, so it sends some. The acknowledgment is not passed on:
// a server that sent no settings takes it for an error.
func (c *guest) callsGRPC(streams uint32, patience time.Duration) (bool, error) {
	var settings []http2.Setting
	if streams > 0 {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: streams})
	}
	if err := http2.NewFramer(c.Conn, nil).WriteSettings(settings...); err != nil {
		return false, err
	}
	c.Conn.SetReadDeadline(time.Now().Add(patience))
	read := &recorder{from: c.Conn, seen: c.head}
	frames := http2.NewFramer(io.Discard, read)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	frames.MaxHeaderListSize = headersMax
	defer func() { c.head = read.seen }()
	acknowledged, kind := false, ""
	for called := false; !called || !acknowledged; {
		begin := len(read.seen)
		frame, err := frames.ReadFrame()
		if idle := errors.Is(err, os.ErrDeadlineExceeded); idle && !called {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() && !acknowledged {
				read.seen = slices.Delete(read.seen, begin, len(read.seen))
				acknowledged = true
			}
		case *http2.MetaHeadersFrame:
			if !called {
				called, kind = true, contentType(f)
			}
		}
		if isGRPC(kind) {
			return true, nil // which expects further settings, and their acknowledgments
		}
	}
	return false, nil
}

func contentType(f *http2.MetaHeadersFrame) string {
	for _, h := range f.RegularFields() {
		if h.Name == "content-type" {
			return h.Value
		}
	}
	return ""
}

// isGRPC reports whether a content type is gRPC's.
func isGRPC(contentType string) bool { return strings.HasPrefix(contentType, "application/grpc") }

var errLongHead = errors.New("server: a client sent too much before it could be told which server it is for")

// A recorder remembers what is read through it.
type recorder struct {
	from net.Conn
	seen []byte
}

func (r *recorder) Read(b []byte) (int, error) {
	if len(r.seen) > headMax {
		return 0, errLongHead
	}
	n, err := r.from.Read(b)
	r.seen = append(r.seen, b[:n]...)
	return n, err
}
