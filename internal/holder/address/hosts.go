package address

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Hosts reads addresses with commas in between. An address without a port gets the usual port.
func Hosts(list, usual string) ([]string, error) {
	var all []string
	for host := range strings.SplitSeq(list, ",") {
		if host == "" {
			return nil, errors.New("an address is empty: write host:port, with commas in between")
		}
		if strings.ContainsAny(host, "/@") {
			return nil, fmt.Errorf("address %q has more than a host and a port", host)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), usual)
		}
		_, port, err := net.SplitHostPort(host)
		if err != nil {
			return nil, err
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("address %q: %q is not a port", host, port)
		}
		all = append(all, host)
	}
	return all, nil
}
