package auth

// Caller is the origin of a request.
type Caller struct {
	User string
	// Revision of the users and roles at which the caller was recognised.
	Revision uint64
	// Member tells that a member itself asks, which may do everything.
	Member bool
}

// Recognize returns the caller of a proof that a user gave at a revision: it counts if users
// were in force ever since, and the user was not made anew, nor got another password (AU-10).
// The error is ErrInvalidToken.
func (s *State) Recognize(name string, proved uint64) (Caller, error) {
	if s == nil || !s.enabled || proved < s.since || proved > s.revision {
		return Caller{}, ErrInvalidToken
	}
	if u := s.user(name); u == nil || proved < u.since {
		return Caller{}, ErrInvalidToken
	}
	return Caller{User: name, Revision: s.revision}, nil
}

// Named returns the caller that a verified certificate names. It need not exist.
func (s *State) Named(name string) Caller { return Caller{User: name, Revision: s.Revision()} }
