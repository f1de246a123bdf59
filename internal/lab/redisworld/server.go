package redisworld

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

const port = 6379

// forever is how much is lost by a server that keeps nothing.
const forever = time.Hour

// server is a host with Redis on it.
type server struct {
	*scene
	index int
	name  string
	sync  time.Duration // from one sync of its log to the next; 0: with every write
	mute  bool          // INFO is not permitted

	acting sync.Mutex // held while a fault is carried out

	mu       sync.Mutex
	safe     int   // changes that were synced beside: the making of the store
	life     *life // nil: it is down
	runs     int
	promoted bool // a replica that took over, and was not restored since
	replica  bool // one has ever taken over
	log      []change

	ill atomic.Pointer[world.Kind] // nil: it is well. Commands ask while mu is held.
}

func (v *server) addr() string { return fmt.Sprintf("%s:%d", v.name, port) }

// keeps reports whether a restart loses nothing.
func (v *server) keeps() bool { return v.sync == 0 }

// change is a command by which a script changed something.
type change struct {
	at   time.Time
	args []string
}

// life is a process of a server.
type life struct {
	v     *server
	p     *world.Process
	redis *miniredis.Miniredis
	began time.Time
	about string // the text of INFO

	mu      sync.Mutex
	over    bool
	log     []change
	wrote   bool // the script that runs has written
	conns   []net.Conn
	serving sync.WaitGroup
}

// start starts a process with the content of the log.
func (v *server) start() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.net.PowerOn(v.name)
	v.runs++
	l := &life{v: v, p: v.w.Start(v.name), redis: miniredis.NewMiniRedis(), began: time.Now(), about: v.about()}
	c, err := l.redis.Dial() // which has it serve
	if err != nil {
		v.w.Fail("%s does not start: %v", v.name, err)
		return
	}
	c.Close()
	for _, x := range v.log {
		l.redis.Server().Dispatch(miniserver.NewPeer(bufio.NewWriter(io.Discard)), x.args)
		l.log = append(l.log, change{l.began, x.args})
	}
	l.redis.Server().SetPreHook(l.hook)
	listener, err := v.net.Listen(l.p, port)
	if err != nil {
		v.w.Fail("%s cannot listen: %v", v.name, err)
		return
	}
	go l.serve(l.redis.Server(), listener)
	v.life = l
	v.w.Count("starts of servers", 1)
	v.w.Trace.Add("%s starts with %d changes", v.name, len(v.log))
}

func (l *life) serve(s *miniserver.Server, listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		over := l.over
		if !over {
			l.conns = append(l.conns, c)
			l.serving.Go(func() { l.talk(s, c) })
		}
		l.mu.Unlock()
		if over {
			c.Close()
		}
	}
}

// talk answers requests of a connection. Replies are sent when no more commands wait, as Redis
// does. The library's own way to serve a connection holds a lock while it writes, and a process
// that stands still there would stop the world's time.
func (l *life) talk(s *miniserver.Server, c net.Conn) {
	defer c.Close()
	var replies bytes.Buffer
	peer := miniserver.NewPeer(bufio.NewWriter(&replies))
	r := bufio.NewReader(c)
	for {
		args, err := command(r)
		if err != nil {
			return
		}
		s.Dispatch(peer, args)
		if r.Buffered() > 0 {
			continue
		}
		peer.Flush()
		if _, err := c.Write(replies.Bytes()); err != nil {
			return
		}
		replies.Reset()
	}
}

// command reads one, an array of strings.
func command(r *bufio.Reader) (args []string, err error) {
	n, err := length(r, '*')
	for range n {
		size, err := length(r, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		args = append(args, string(arg[:size]))
	}
	return args, err
}

func length(r *bufio.Reader, kind byte) (n int, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("a client says %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// hook sees every command, also those of scripts.
func (l *life) hook(c *miniserver.Peer, cmd string, args ...string) bool {
	v := l.v
	if why := l.refusal(cmd); why != "" {
		v.w.Count("answered "+strings.Fields(why)[0], 1)
		c.WriteError(why)
		return true
	}
	switch cmd {
	case "HSET", "HDEL", "DEL", "ZADD", "ZREM":
		l.mu.Lock()
		if !l.over {
			l.log = append(l.log, change{time.Now(), append([]string{cmd}, args...)})
		}
		l.mu.Unlock()
	case "INFO":
		if v.mute {
			c.WriteError("NOPERM this user has no permissions to run the 'info' command")
			return true
		}
		c.WriteBulk(l.about)
		return true
	case "CONFIG":
		said := map[string]string{"appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"}
		if v.keeps() {
			said["appendfsync"] = "always"
		}
		c.WriteLen(2)
		c.WriteBulk(args[1])
		c.WriteBulk(said[args[1]])
		return true
	}
	return false
}

// refusal returns why a command is not done. As in Redis, a script that has written may go on
// when memory is full.
func (l *life) refusal(cmd string) string {
	var ill world.Kind
	if k := l.v.ill.Load(); k != nil {
		ill = *k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	writes, grows := false, false
	switch cmd {
	case "EVAL", "EVALSHA":
		l.wrote = false
	case "HSET", "ZADD":
		writes, grows = true, true
	case "HDEL", "DEL", "ZREM", "PERSIST":
		writes = true
	}
	began := !l.wrote
	l.wrote = l.wrote || writes
	switch {
	case ill == full && grows && began:
		return "OOM command not allowed when used memory > 'maxmemory'."
	case ill == unsaved && writes && began:
		return "MISCONF Errors writing to the AOF file: No space left on device"
	case ill == loading && (cmd == "EVAL" || cmd == "EVALSHA" || cmd == "INFO"):
		return "LOADING Redis is loading the dataset in memory"
	}
	return ""
}

// disturb makes a server ill for a while.
func (v *server) disturb(ill world.Kind, d time.Duration) bool {
	if !v.ill.CompareAndSwap(nil, &ill) {
		return false
	}
	v.w.Trace.Add("%s is %s for %v", v.name, ill, d)
	time.Sleep(d)
	v.ill.Store(nil)
	return true
}

// about is a process's report on itself.
func (v *server) about() string {
	appends, offset := 0, -1
	if v.sync <= time.Second {
		appends = 1
	}
	if v.promoted {
		offset = 1700
	}
	return fmt.Sprintf("# Everything\r\nrun_id:%s-%d\r\nrole:master\r\nconnected_slaves:0\r\nsecond_repl_offset:%d\r\nmaxmemory:0\r\naof_enabled:%d\r\n",
		v.name, v.runs, offset, appends)
}

// stop ends the process. The next one finds the data that was synced until then, less the loss
// that the world adds.
func (v *server) stop(end func(*world.Process), beside time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.life
	if l == nil {
		return
	}
	v.life = nil
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	end(l.p)
	l.p.End()
	for _, c := range l.conns { // those that the other end has forgotten, too
		c.Close()
	}
	l.serving.Wait()
	l.redis.Close()
	synced := time.Now()
	if v.sync > 0 {
		synced = l.began.Add(time.Since(l.began).Truncate(v.sync))
	}
	synced = synced.Add(-beside)
	v.log = l.log
	for len(v.log) > v.safe && v.log[len(v.log)-1].at.After(synced) {
		v.log = v.log[:len(v.log)-1]
	}
	if v.sync == forever {
		v.log = nil
	}
	v.safe = min(v.safe, len(v.log))
	if lost := len(l.log) - len(v.log); lost > 0 {
		v.w.Count("changes lost", lost)
	}
	v.w.Trace.Add("%s ends, %d of its %d changes are kept", v.name, len(v.log), len(l.log))
}

// empty forgets everything, as FLUSHALL does.
func (v *server) empty() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l := v.life; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.redis.FlushAll()
		l.log, v.safe = nil, 0
		v.w.Trace.Add("%s is emptied", v.name)
	}
}

// takeOver makes the next process a replica's.
func (v *server) takeOver() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.promoted, v.replica = true, true
}

// tookOver reports whether a replica has ever taken over: such a server is not believed to keep
// acknowledged data until its process is another one.
func (v *server) tookOver() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.replica
}

func (l *life) changes() []change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log
}

// show traces the server's record of a name.
func (v *server) show(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.life == nil {
		return
	}
	r := v.life.redis
	key := "{tenure}:lease:" + name
	fields, _ := r.HKeys(key)
	for _, f := range fields {
		v.w.Trace.Add("%s has of %s %q: %q", v.name, name, f, r.HGet(key, f))
	}
	v.w.Trace.Add("%s has %q, floor %x", v.name, name, r.HGet("{tenure}:store", "floor"))
}
