package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/fence"
)

// Service is one process's part. Over HTTP, GET tells the count and POST counts one
// more; both answer with the count.
type Service struct {
	Election tenure.Election // its claim's Holder is our address
	Path     string          // of the file with the count

	leads atomic.Pointer[tenure.Lease] // nil unless we do
}

// Run leads whenever it can, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	return s.Election.Lead(ctx, func(ctx context.Context, lease tenure.Lease) error {
		// From here on no older leader writes any more, so what we read stays true.
		if err := s.fence().Check(lease.Token()); err != nil {
			return err
		}
		s.leads.Store(&lease)
		defer s.leads.Store(nil)
		<-ctx.Done()
		return ctx.Err()
	})
}

func (s *Service) fence() fence.File { return fence.File{Path: s.Path + ".token"} }

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lease := s.leads.Load()
	if lease == nil || (*lease).Check() != nil {
		s.redirect(w, r)
		return
	}
	switch r.Method {
	case http.MethodGet:
		n, err := s.read()
		if (*lease).Check() != nil {
			s.redirect(w, r) // another may have counted while we read
			return
		}
		answer(w, n, err)
	case http.MethodPost:
		s.count(w, r, (*lease).Token())
	default:
		http.Error(w, "GET tells the count, POST counts", http.StatusMethodNotAllowed)
	}
}

// count serves a POST under a token. The fence reads it from the request's header, where
// clients of a guarded resource put it; here the leader is the client.
func (s *Service) count(w http.ResponseWriter, r *http.Request, token uint64) {
	r = r.Clone(r.Context())
	r.Header.Set(fence.Header, strconv.FormatUint(token, 10))
	fence.Handler(s.fence(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, err := s.read()
		if err == nil {
			n++
			err = s.write(n)
		}
		answer(w, n, err)
	})).ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, n int, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n)
}

// redirect sends the client to the leader.
func (s *Service) redirect(w http.ResponseWriter, r *http.Request) {
	leader, err := s.Election.Leader(r.Context())
	if err == nil && leader.Holder == s.Election.Claim.Holder {
		err = errors.New("it was this one") // which does not lead yet, or not any more
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "nobody leads at the moment: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.Redirect(w, r, "http://"+leader.Holder+r.URL.RequestURI(), http.StatusTemporaryRedirect)
}

func (s *Service) read() (int, error) {
	text, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// write replaces the file as a whole, and has it on disk before anybody is told. The fence
// lets one in at a time.
func (s *Service) write(n int) error {
	next, err := os.Create(s.Path + ".next")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(next, n)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), s.Path)
}
