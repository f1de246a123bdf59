package address

import (
	"errors"
	"net/url"
	"strings"
)

// Hide leaves the user and the password out of a URL, for errors that show it.
func Hide(whole string) string {
	scheme, rest, _ := strings.Cut(whole, "://")
	if _, servers, ok := CutUser(rest); ok {
		return scheme + "://…@" + servers
	}
	return whole
}

// CutUser cuts what stands before hosts at the last @.
func CutUser(rest string) (who, hosts string, ok bool) {
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		return rest[:i], rest[i+1:], true
	}
	return "", rest, false
}

// User reads user:password. has reports whether there is a password, be it empty. The error shows no
// part of it.
func User(who string) (user, password string, has bool, err error) {
	user, password, has = strings.Cut(who, ":")
	user, bad := url.PathUnescape(user)
	password, worse := url.PathUnescape(password)
	if bad != nil || worse != nil { // which would quote a part of the password
		return "", "", has, errors.New("a user or password has a % that begins no escape: write it as %25")
	}
	return user, password, has, nil
}

// ErrQuestion is the error of a URL whose @ stands behind a ?. Another error may quote the first part of
// a password.
var ErrQuestion = errors.New("if that is a password with a ? in it, write the ? as %3f; else an address or the number of a database is wrong")
