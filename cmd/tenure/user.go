package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/term"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// asUser is the user as which a command asks a server that has users. The flags' defaults are not those of
// the environment: --help would print them.
type asUser struct {
	user, password, file string
	quiet                bool   // nobody is there to be asked
	asked                string // the password that was typed, which is asked for once
}

func userFlags(flags *pflag.FlagSet) *asUser {
	l := &asUser{}
	flags.StringVar(&l.user, "user", "", "`name[:password]` of a server's user; also by TENURE_USER; the password is asked for if nothing tells it")
	flags.StringVar(&l.password, "password", "", "`password` of the user, which other users of this machine may see here; also by TENURE_PASSWORD")
	flags.StringVar(&l.file, "password-file", "", "`file` with the password of the user; also by TENURE_PASSWORD_FILE")
	return l
}

// place is where leases or servers are, and the user that asks there.
type place struct {
	url string
	*asUser
}

// String is the URL without a password.
func (p place) String() string { return address.Hide(p.url) }

// served reports whether the place is a server that may have users.
func (p place) served() bool { return strings.HasPrefix(p.url, "etcd") }

// config is that of the servers, with the user and its password. A flag wins over the URL, and that
// over the environment.
func (p place) config() (etcd.Config, error) {
	cfg, err := etcd.ReadURLOfUser(p.url)
	if err != nil {
		return cfg, cli.Usage(err)
	}
	if p.asUser != nil {
		if err := p.asUser.complete(&cfg); err != nil {
			return cfg, err
		}
	}
	return cfg, cli.Usage(cfg.Check())
}

// ready finds out, or asks for, what the place needs: before a time is limited, and before signals are caught.
func (p place) ready() error {
	if !p.served() {
		return p.unserved()
	}
	_, err := p.config()
	return err
}

// unasked is the place for a completion, which asks nobody for a password.
func (p place) unasked() place {
	if p.asUser != nil {
		quiet := *p.asUser
		quiet.quiet = true
		p.asUser = &quiet
	}
	return p
}

// unserved refuses a user where nobody would ask for it.
func (p place) unserved() error {
	if p.asUser != nil && !p.served() && (p.user != "" || p.password != "" || p.file != "") {
		return cli.Usagef("--user is for a server's users: --at %s is no server", p)
	}
	return nil
}

// complete fills in what the URL does not say.
func (l *asUser) complete(cfg *etcd.Config) error {
	user, password, file := l.user, l.password, l.file
	if user == "" && cfg.Username == "" {
		user = os.Getenv("TENURE_USER")
	}
	if user != "" {
		cfg.Username, cfg.Password = user, ""
		// As with etcdctl, a name may have a colon if the password stands elsewhere.
		if name, secret, ok := strings.Cut(user, ":"); ok && password == "" && file == "" {
			cfg.Username, cfg.Password = name, secret
		}
	}
	if password == "" && file == "" && cfg.Password == "" && cfg.Username != "" {
		password, file = os.Getenv("TENURE_PASSWORD"), os.Getenv("TENURE_PASSWORD_FILE")
		if password != "" {
			file = ""
		}
	}
	var err error
	switch {
	case password != "" && file != "":
		return cli.Usagef("--password and --password-file exclude each other")
	case password != "":
		cfg.Password = password
	case file != "":
		if cfg.Password, err = etcd.ReadPassword(file); err != nil {
			return cli.Usage(err)
		}
	case cfg.Username != "" && cfg.Password == "":
		cfg.Password, err = l.ask(cfg.Username)
	}
	return err
}

// ask reads the password from a terminal, without showing it.
func (l *asUser) ask(user string) (string, error) {
	if l.asked != "" {
		return l.asked, nil
	}
	in := int(os.Stdin.Fd())
	if l.quiet || !term.IsTerminal(in) || people() == nil {
		return "", cli.Usagef("there is no password for the user %s, and no terminal to ask for it: write --password-file FILE, or set TENURE_PASSWORD", user)
	}
	fmt.Fprintf(os.Stderr, "Password of %s: ", user)
	defer echoAgain(in)()
	password, err := term.ReadPassword(in)
	fmt.Fprintln(os.Stderr)
	if err == nil && len(password) == 0 {
		err = cli.Usagef("there is no password for the user %s", user)
	}
	l.asked = string(password)
	return l.asked, err
}

// echoAgain has a signal leave the terminal as it was, until the function is called.
func echoAgain(in int) (stop func()) {
	before, err := term.GetState(in)
	if err != nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	done := make(chan struct{})
	go func() {
		select {
		case sig := <-signals:
			_ = term.Restore(in, before)
			fmt.Fprintln(os.Stderr)
			os.Exit(cli.ExitSignal + int(sig.(syscall.Signal)))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// environment is the place for a tenure inside a command. A password that stands on the command line is not
// passed on.
func (p place) environment() []string {
	env := []string{"TENURE_AT=" + p.url}
	if p.asUser == nil || !p.served() {
		return env
	}
	if name, _, _ := strings.Cut(p.user, ":"); name != "" {
		env = append(env, "TENURE_USER="+name)
	}
	if p.file != "" {
		file, err := filepath.Abs(p.file)
		if err != nil {
			file = p.file
		}
		env = append(env, "TENURE_PASSWORD_FILE="+file)
	}
	return env
}

// refused is an error about a server that has users, as a colleague would put it; nil if err is of another kind.
func (p place) refused(err error) error {
	switch known := rpctypes.Error(err); {
	case errors.Is(known, rpctypes.ErrUserEmpty):
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("the server at %s has users: write --user NAME, or set TENURE_USER", p))
	case errors.Is(known, rpctypes.ErrAuthFailed):
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("the server at %s knows no such user, or the password is wrong", p))
	case errors.Is(known, rpctypes.ErrPermissionDenied):
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("the server at %s does not permit that to this user", p))
	}
	return nil
}
