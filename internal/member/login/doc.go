// Package login turns what a client shows into the caller of its requests, and names and
// passwords into tokens. The state of users is package auth's.
//
//	authority, err := login.New(backend, login.Config{Tokens: "simple"})
//	token, err := authority.Authenticate(ctx, name, password)
//	…
//	c, err := authority.Identify(ctx, token)  // then caller.With(ctx, c)
//
// # Passwords
//
// Bcrypt takes long on purpose. It runs in the goroutine of the call, for a few calls at a time
// ([Config].Cost, [Passwords]): a flood of logins keeps neither heartbeats nor the log from
// their processors. Whether a user exists is not to be told from the time that it takes.
//
// # Simple tokens
//
// A simple token is a secret, a point, and the index of the entry that has its digest. All
// members learn of the entry ([Simple.Add]), so each knows the token. It ends when it was not
// used at a member for its TTL, there; when its user gets another password or is deleted, or
// users are switched off (AU-10); and with the process, unless the log has the entry
// still. It is no signature: nobody can check one beside the members.
//
// # Signed tokens
//
// A JSON web token ([ParseOptions]) has the name of its user, and the revision of users at which
// it was signed. Requests on keys are refused as old after the next change of users, as in
// etcd; clients log in again by themselves. No log entry and no memory is needed for it.
package login
