package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// server has a server's answers about itself.
type server struct {
	run      string // names the process; "" if it does not say
	promoted bool   // it took over from a master
	replica  bool
	replicas bool // it has some
	evicts   bool
	appends  bool   // writes go to a log
	fsync    string // of the log; "" if we may not know
	pauses   bool   // no sync of the log while it is rewritten or saved, or we may not know
}

// keeps reports whether acknowledged writes survive a restart.
func (s server) keeps() bool {
	return s.run != "" && s.appends && s.fsync == "always" && !s.pauses && !s.promoted
}

func (s server) kept() string {
	if s.keeps() {
		return "1"
	}
	return "0"
}

// meet asks a server about itself.
func meet(ctx context.Context, c goredis.Cmdable) (s server, err error) {
	pipe := c.Pipeline()
	info := pipe.Info(ctx)
	config := pipe.ConfigGet(ctx, "appendfsync")
	pauses := pipe.ConfigGet(ctx, "no-appendfsync-on-rewrite")
	_, _ = pipe.Exec(ctx)
	var refused goredis.Error
	if err := info.Err(); err != nil && !errors.As(err, &refused) {
		return s, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(info.Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	s.run = fields["run_id"]
	s.replica = fields["role"] == "slave"
	s.replicas = fields["connected_slaves"] != "" && fields["connected_slaves"] != "0"
	s.promoted = fields["second_repl_offset"] != "" && fields["second_repl_offset"] != "-1"
	s.evicts = fields["maxmemory"] != "0" && strings.HasPrefix(fields["maxmemory_policy"], "allkeys")
	s.appends = fields["aof_enabled"] == "1"
	s.fsync = config.Val()["appendfsync"]
	s.pauses = pauses.Val()["no-appendfsync-on-rewrite"] != "no"
	switch {
	case s.replica:
		return s, ErrReplica
	case s.evicts:
		return s, ErrEvicts
	}
	return s, nil
}

// warning says how the server can disappoint, if that costs more than this server.
func (s server) warning(of int) string {
	switch {
	case s.run == "":
		return "the server does not tell when it restarts (no run_id in INFO, or INFO is not permitted): " +
			"if it ever loses writes that it acknowledged, two may hold one lease; permit INFO"
	case s.replicas:
		return "the server has replicas: one that takes over from it lacks the last writes and is refused (until it is restored); " +
			"independent servers serve better"
	case of < 3 && !s.keeps():
		return "a restart of the server may lose writes that it acknowledged: the store then refuses to work until it is restored; " +
			"set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no and permit CONFIG GET, or use three servers"
	}
	return ""
}

// arrive is done on every new connection, for behind it may be another process or even
// another server than behind the one before.
func (s *Store) arrive(ctx context.Context, c *goredis.Conn) error {
	about, err := meet(ctx, c)
	if err != nil {
		return s.options.trouble(err)
	}
	loss := fmt.Sprintf("another process than before answers (run_id %s), and appendonly %t with appendfsync %q (paused during rewrites: %t) does not keep all it acknowledges",
		about.run, about.appends, about.fsync, about.pauses)
	if about.promoted {
		loss = fmt.Sprintf("a replica (run_id %s) has taken over from its master", about.run)
	}
	pipe := c.Pipeline()
	arrived := &call{result: pipe.Eval(ctx, arriveScript.source, s.options.keys(""), s.seal, about.run, about.kept(), loss)}
	for _, x := range operations {
		pipe.ScriptLoad(ctx, x.source) // if that is not permitted, run sends them
	}
	_, _ = pipe.Exec(ctx)
	warning := about.warning(s.header.Of)
	s.warning.Store(&warning)
	_, err = arrived.reply()
	return s.options.trouble(err)
}
