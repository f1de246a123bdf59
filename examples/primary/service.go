package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// Service is one of the processes: always a replica, and the primary while it has the
// lease.
type Service struct {
	Leaser   tenure.Leaser
	Claim    tenure.Claim // its Holder is where the primary serves
	Self     string
	Replicas []string // addresses of all, Self among them
	Replica  Replica

	mu    sync.Mutex
	lease tenure.Lease       // while it is the primary
	quit  context.CancelFunc // ends the work under the lease
	entry Entry
}

// Lead does the primary's work under its lease.
func (s *Service) Lead(ctx context.Context, lease tenure.Lease) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	entry, err := s.recover(ctx, lease)
	if err != nil {
		wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		<-wait.Done() // the process that is needed may come
		return err
	}
	s.mu.Lock()
	s.lease, s.entry, s.quit = lease, entry, quit
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock() // no request is under way any more
	s.lease = nil
	s.mu.Unlock()
	return ctx.Err()
}

// Rejoin lets a replica that was started anew take part again. It made its promises to the
// present primary, or to one before.
func (s *Service) Rejoin(ctx context.Context) {
	for ctx.Err() == nil {
		state, err := s.Leaser.Observe(ctx, s.Claim.Name)
		if err == nil && len(state.Holders) > 0 {
			s.Replica.Rejoin(state.Holders[0].Token)
			return
		}
		pause, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		<-pause.Done()
		cancel()
	}
}

// recover finds what primaries before have answered: a majority stored it, and of any
// majority one has it. It is stored under the new token before anybody hears of it.
func (s *Service) recover(ctx context.Context, lease tenure.Lease) (Entry, error) {
	found, err := s.majority(ctx, "promise", Entry{Token: lease.Token()})
	if err != nil {
		return Entry{}, fmt.Errorf("ask a majority for the state: %w", err)
	}
	last := Entry{}
	for _, e := range found {
		if e.after(last) {
			last = e
		}
	}
	last.Token, last.Seq = lease.Token(), 1
	_, err = s.majority(ctx, "store", last)
	return last, err
}

// majority asks all replicas, and returns the answers once a majority agreed; after two
// seconds at the latest.
func (s *Service) majority(ctx context.Context, verb string, e Entry) (answers []Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	type answer struct {
		Entry
		error
	}
	all := make(chan answer, len(s.Replicas))
	var asked sync.WaitGroup
	for _, addr := range s.Replicas {
		asked.Go(func() {
			got, err := s.ask(ctx, addr, verb, e)
			all <- answer{got, err}
		})
	}
	go func() { // late replicas store it, too
		asked.Wait()
		cancel()
	}()
	var errs []error
	for range s.Replicas {
		a := <-all
		if a.error != nil {
			errs = append(errs, a.error)
		} else if answers = append(answers, a.Entry); len(answers) > len(s.Replicas)/2 {
			return answers, nil
		}
	}
	return nil, errors.Join(errs...)
}

func (s *Service) ask(ctx context.Context, addr, verb string, e Entry) (got Entry, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return got, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/replica/"+verb, bytes.NewReader(body))
	if err != nil {
		return got, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return got, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return got, fmt.Errorf("%s: %s", addr, r.Status)
	}
	return got, json.NewDecoder(r.Body).Decode(&got)
}

// Handler serves clients at /, and other processes below /replica/.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /replica/", &s.Replica)
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, q *http.Request) { s.serve(w, q, 1) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, q *http.Request) { s.serve(w, q, 0) })
	return mux
}

// serve counts, or reads the count.
func (s *Service) serve(w http.ResponseWriter, q *http.Request, add int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Check() != nil {
		s.redirect(w, q)
		return
	}
	next := s.entry
	if add > 0 {
		next.Seq, next.Count = next.Seq+1, next.Count+add
		// The client's context must not end this: a client that hangs up would depose the
		// primary, and keep the entry from late replicas.
		if _, err := s.majority(context.WithoutCancel(q.Context()), "store", next); err != nil {
			// It may be stored somewhere, or not: the next primary finds out.
			s.quit()
			http.Error(w, fmt.Sprintf("it may have been counted: %v", err), http.StatusServiceUnavailable)
			return
		}
		s.entry = next
	}
	if s.lease.Check() != nil && add == 0 {
		http.Error(w, "the lease ended while we read", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, next.Count)
}

// redirect sends a client to the primary.
func (s *Service) redirect(w http.ResponseWriter, q *http.Request) {
	state, err := s.Leaser.Observe(q.Context(), s.Claim.Name)
	if err != nil || len(state.Holders) == 0 || state.Holders[0].Holder == s.Self {
		http.Error(w, "there is no primary at the moment; try again", http.StatusServiceUnavailable)
		return
	}
	http.Redirect(w, q, "http://"+state.Holders[0].Holder+"/", http.StatusTemporaryRedirect)
}
