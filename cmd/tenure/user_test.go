package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// noUser empties the environment of users.
func noUser(t *testing.T) {
	for _, name := range []string{"TENURE_USER", "TENURE_PASSWORD", "TENURE_PASSWORD_FILE"} {
		t.Setenv(name, "")
	}
}

// A flag wins over the URL, and that over the environment. A name may have a colon if its password stands
// elsewhere.
func TestWhichUserAsks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at             string
		env            string // NAME=value, with spaces in between
		args           []string
		user, password string
		says           string
	}{
		{"etcd://a", "", nil, "", "", ""},
		{"etcd://a", "", []string{"--user", "u:p:q"}, "u", "p:q", ""},
		{"etcd://a", "", []string{"--user", "u:v", "--password", "p"}, "u:v", "p", ""},
		{"etcd://a", "", []string{"--user", "u:v", "--password-file", file}, "u:v", "filed", ""},
		{"etcd://a", "TENURE_USER=u TENURE_PASSWORD=p", nil, "u", "p", ""},
		{"etcd://a", "TENURE_USER=u:p", nil, "u", "p", ""},
		{"etcd://a", "TENURE_USER=u TENURE_PASSWORD_FILE=" + file, nil, "u", "filed", ""},
		{"etcd://a", "TENURE_USER=u TENURE_PASSWORD=p TENURE_PASSWORD_FILE=" + file, nil, "u", "p", ""},
		{"etcd://a", "TENURE_PASSWORD=p", nil, "", "", ""},
		{"etcd://a", "TENURE_USER=e:x", []string{"--user", "u:p"}, "u", "p", ""},
		{"etcd://a", "TENURE_PASSWORD=p", []string{"--user", "u"}, "u", "p", ""},
		{"etcd://a", "TENURE_PASSWORD=x", []string{"--user", "u", "--password-file", file}, "u", "filed", ""},
		{"etcd://u:p@a", "TENURE_USER=e TENURE_PASSWORD=x", nil, "u", "p", ""},
		{"etcd://u@a", "TENURE_PASSWORD=x", nil, "u", "x", ""},
		{"etcd://e:x@a", "", []string{"--user", "u:p"}, "u", "p", ""},
		{"etcd://e:x@a", "", []string{"--user", "u"}, "", "", "no terminal to ask"},
		{"etcd://u@a?passwordfile=" + file, "TENURE_PASSWORD=x", nil, "u", "filed", ""},
		{"etcd://a", "", []string{"--user", "u"}, "", "", "there is no password for the user u, and no terminal to ask for it"},
		{"etcd://a", "", []string{"--password", "p"}, "", "", "there is a password and no user"},
		{"etcd://a", "", []string{"--user", "u", "--password", "p", "--password-file", file}, "", "", "exclude each other"},
		{"etcd://a", "", []string{"--user", "u", "--password-file", "/none"}, "", "", "password: open /none"},
		{"redis://a", "", []string{"--user", "u:p"}, "", "", "--at redis://a is no server"},
		{"redis://u:secret@a", "", []string{"--user", "u:p"}, "", "", "--at redis://…@a is no server"},
		{"redis://a", "TENURE_USER=u:p", nil, "", "", ""},
		{"local", "", []string{"--password-file", "f"}, "", "", "is no server"},
	} {
		noUser(t)
		for _, v := range strings.Fields(tt.env) {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		var at place
		f := pflag.NewFlagSet("f", pflag.ContinueOnError)
		atFlag(f, &at)
		if err := f.Parse(append([]string{"--at", tt.at}, tt.args...)); err != nil {
			t.Fatal(err)
		}
		err := at.ready()
		if tt.says != "" {
			wantRefused(t, err, tt.says)
			continue
		}
		var cfg etcd.Config
		if err == nil && at.served() {
			cfg, err = at.config()
		}
		if err != nil || cfg.Username != tt.user || cfg.Password != tt.password {
			t.Errorf("--at %s %q with %q: user %q with password %q, %v; want %q with %q", tt.at, tt.args, tt.env, cfg.Username, cfg.Password, err, tt.user, tt.password)
		}
	}
}

// usersWords are arguments of the commands that a user can be given to.
var usersWords = map[string]string{
	"lock": "n -- true", "elect": "n -- true", "lease list": "", "lease show": "n", "lease break": "n --yes", "lease reset": "n",
	"status": "", "member list": "", "member add": "d --learner --peer-urls http://h:1", "member remove": "d", "member promote": "d", "member update": "d --peer-urls http://h:1",
	"member move-leader": "d", "read-lease": "", "read-lease set": "all", "read-lease holders": "k", "snapshot save": "/nosuch/file", "bench server": "",
}

// A user is for a server: whichever command is given one for another place refuses that, before it has done anything.
func TestAUserIsForAServer(t *testing.T) {
	noUser(t)
	tried := 0
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		if cmd.Flag("user") == nil || cmd.RunE == nil {
			return
		}
		words, known := usersWords[strings.Join(path, " ")]
		if !known {
			t.Errorf("usersWords has no arguments of tenure %s", strings.Join(path, " "))
			return
		}
		tried++
		out, err := command(t, slices.Concat(path, []string{"--at", "redis://127.0.0.1:1", "--user", "u", "--password", "p"}, strings.Fields(words))...)
		if wantRefused(t, err, "--user is for a server's users: --at redis://127.0.0.1:1 is no server"); out != "" || t.Failed() {
			t.Fatalf("tenure %s with a user, and without a server, prints %q", strings.Join(path, " "), out)
		}
	})
	if tried != len(usersWords) {
		t.Errorf("%d commands were tried, want %d", tried, len(usersWords))
	}
}

// The help shows no value of the environment as a default, for it may be a password.
func TestHelpTellsNoPassword(t *testing.T) {
	for _, name := range []string{"TENURE_USER", "TENURE_PASSWORD", "TENURE_PASSWORD_FILE"} {
		t.Setenv(name, "qwerty:qwerty")
	}
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		if strings.Contains(cmd.UsageString(), "qwerty") {
			t.Errorf("the help of %s tells the password of the environment", cmd.CommandPath())
		}
	})
}

// A command inside a lease asks as the same user. A password goes by way of a file or of the environment,
// and never from our command line.
func TestUserOfACommand(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at   place
		want []string
	}{
		{place{"etcds://a", &asUser{user: "u", file: "f"}}, []string{"TENURE_AT=etcds://a", "TENURE_USER=u", "TENURE_PASSWORD_FILE=" + filepath.Join(dir, "f")}}, // it may run elsewhere
		{place{"redis://a", &asUser{user: "u", file: "/f"}}, []string{"TENURE_AT=redis://a"}},
		{place{"etcd://a", &asUser{file: "/f"}}, []string{"TENURE_AT=etcd://a", "TENURE_PASSWORD_FILE=/f"}},
		{place{url: "etcd://a"}, []string{"TENURE_AT=etcd://a"}},
		{place{"etcd://a", &asUser{user: "u:secret"}}, []string{"TENURE_AT=etcd://a", "TENURE_USER=u"}},
		{place{"etcd://a", &asUser{user: "u", password: "secret", file: "/f"}}, []string{"TENURE_AT=etcd://a", "TENURE_USER=u", "TENURE_PASSWORD_FILE=/f"}},
		{place{"redis://a", &asUser{}}, []string{"TENURE_AT=redis://a"}},
	} {
		if got := tt.at.environment(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: a command finds %q, want %q", tt.at.asUser, got, tt.want)
		}
	}
}

// Each command that talks to a server does so as the user that it is given. Without one it says what is
// missing, and with one of few rights that these do not suffice; nothing is told as a server that is down.
func TestCommandsAsAUser(t *testing.T) {
	noUser(t)
	at := "etcd://" + startServer(t)
	client, err := serverAt(t.Context(), place{url: at})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	do(client.UserAdd(ctx, "root", "r"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.RoleAdd(ctx, "apps"))
	do(client.RoleGrantPermission(ctx, "apps", "app", clientv3.GetPrefixRangeEnd("app"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(client.UserAdd(ctx, "app", "a"))
	do(client.UserGrantRole(ctx, "app", "apps"))
	do(client.AuthEnable(ctx))
	saved := filepath.Join(t.TempDir(), "saved")
	const denied = "does not permit that to this user"
	for _, tt := range []struct {
		args []string
		app  string // why app may not
	}{
		{[]string{"status"}, ""},
		{[]string{"member", "list"}, ""},
		{[]string{"member", "move-leader", "one"}, ""}, // it leads already
		{[]string{"read-lease", "holders", "app"}, ""},
		{[]string{"read-lease", "set", "off"}, "permission denied"},
		{[]string{"lease", "list", "app"}, ""},
		{[]string{"lease", "list"}, "permission denied"},
		{[]string{"lease", "show", "app/n"}, ""},
		{[]string{"lease", "break", "app/n", "--yes"}, ""},
		{[]string{"snapshot", "save", saved}, denied},
	} {
		for user, says := range map[string]string{"": "has users", "app:a": tt.app, "root:r": "", "root:wrong": "password"} {
			args := append(slices.Clone(tt.args), "--at", at)
			if user != "" {
				args = append(args, "--user", user)
			}
			_, err := command(t, args...)
			var exit cli.ExitError
			switch {
			case says == "" && err != nil:
				t.Errorf("%s as %q: %v", tt.args, user, err)
			case says != "" && (err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "check the address")):
				t.Errorf("%s as %q: %v, want %q", tt.args, user, err, says)
			case says != "" && errors.As(err, &exit) && exit.Code == cli.ExitUsage:
				t.Errorf("%s as %q is told as wrong usage: %v", tt.args, user, err)
			}
			os.Remove(saved)
		}
	}
	app := place{at, &asUser{user: "app:a"}}
	held := func(name string) error {
		return lock(ctx, &tenancy{claim: tenure.Claim{Name: name, TTL: tenure.DefaultTTL, Slots: 1}, at: app, argv: []string{"sh", "-c", "test $TENURE_USER = app"}}, &every{}, wait{})
	}
	if err := held("app/n"); err != nil {
		t.Errorf("app takes a lease of its own: %v", err)
	}
	if err := held("other"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("app takes another's lease: %v", err)
	}
	var names []string
	for range 20 { // each has a second, which is short beside much else
		if names, _ = completeMembers(&app)(nil, nil, ""); names != nil {
			break
		}
	}
	if !slices.Equal(names, []string{"one"}) {
		t.Errorf("as app, names of members are completed to %q", names)
	}
}
