package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Header is where a request carries the token of its sender's lease.
const Header = "Tenure-Token"

// Handler lets requests through to next under the highest token seen, as kept
// by the store. It answers, in plain text,
//
//	400  without a token, or with something else in its place
//	409  to a token below the highest: the sender's lease has passed to another
//	503  if the store fails
//
// Every request needs a token. Route requests that only read past the Handler. While next
// runs, the store keeps newer tokens out. So a request that hangs delays the next holder:
// give requests a time limit.
func Handler(store Store, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := requestToken(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		served := false
		err = store.Do(token, func() error {
			served = true
			next.ServeHTTP(w, r)
			return nil
		})
		switch {
		case served: // the answer is next's
		case errors.Is(err, ErrStale):
			http.Error(w, err.Error()+"; stop, and do not send this again", http.StatusConflict)
		case err != nil:
			http.Error(w, "cannot check the fencing token: "+err.Error(), http.StatusServiceUnavailable)
		}
	})
}

func requestToken(r *http.Request) (uint64, error) {
	values := r.Header.Values(Header)
	if len(values) != 1 {
		return 0, fmt.Errorf("this resource is guarded by a lease: send its token once, in header %s", Header)
	}
	token, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || token == 0 {
		return 0, fmt.Errorf("header %s is %.40q, want a positive decimal number", Header, values[0])
	}
	return token, nil
}
