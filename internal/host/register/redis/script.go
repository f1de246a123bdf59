package redis

import (
	"context"
	"crypto/sha1" // as Redis names scripts
	_ "embed"
	"encoding/hex"

	goredis "github.com/redis/go-redis/v9"
)

// A script runs whole or not at all beside others, which makes a server's registers
// atomic.
var (
	//go:embed lua/later.lua
	laterLua string
	//go:embed lua/common.lua
	commonLua string

	//go:embed lua/query.lua
	queryLua string
	//go:embed lua/put.lua
	putLua string
	//go:embed lua/note.lua
	noteLua string
	//go:embed lua/leave.lua
	leaveLua string
	//go:embed lua/forget.lua
	forgetLua string
	//go:embed lua/arrive.lua
	arriveLua string
	//go:embed lua/finish.lua
	finishLua string

	//go:embed lua/init.lua
	initLua string
	//go:embed lua/unseal.lua
	unsealLua string
	//go:embed lua/wipe.lua
	wipeLua string
	//go:embed lua/reseal.lua
	resealLua string

	queryScript  = operation(queryLua)
	putScript    = operation(putLua)
	noteScript   = operation(noteLua)
	leaveScript  = operation(leaveLua)
	forgetScript = operation(forgetLua)
	arriveScript = operation(arriveLua)
	finishScript = operation(finishLua)
)

// operations are the scripts that Do calls.
var operations = []*script{queryScript, putScript, noteScript, leaveScript, forgetScript}

type script struct{ source, hash string }

// operation is a script that checks the seal first.
func operation(lua string) *script {
	source := laterLua + commonLua + lua
	hash := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(hash[:])}
}

// call is a script with its arguments and its result.
type call struct {
	script *script
	keys   []string
	args   []any
	result *goredis.Cmd
}

// reply is the result of the script. Every script returns something.
func (c *call) reply() (any, error) {
	reply, err := c.result.Result()
	if err == nil && reply == nil {
		err = errReply
	}
	return reply, err
}

// run calls scripts in order, in one round trip, or two if the server does not know them. A
// script that is called again was not executed, so no write is ever repeated.
func run(ctx context.Context, c *goredis.Client, calls []*call) {
	pipe := c.Pipeline()
	for _, x := range calls {
		x.result = pipe.EvalSha(ctx, x.script.hash, x.keys, x.args...)
	}
	_, _ = pipe.Exec(ctx) // each result has its own error
	again := c.Pipeline()
	for _, x := range calls {
		if goredis.HasErrorPrefix(x.result.Err(), "NOSCRIPT") {
			x.result = again.Eval(ctx, x.script.source, x.keys, x.args...)
		}
	}
	if again.Len() > 0 {
		_, _ = again.Exec(ctx)
	}
}
