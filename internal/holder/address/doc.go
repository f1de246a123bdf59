// Package address reads the hosts and ports in the URLs of engines.
package address

import "errors"

// ErrURL is an engine URL that makes no sense. An error that wraps it shows the URL, without a
// password, and says which part to change.
var ErrURL = errors.New("engine URL")
