package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// shepherd is a second process of ours that kills the command's whole group when we cannot. It
// does so when the pipe between us breaks, because we ended in any way, and when the time that
// we sent it last has come, because we were stopped. (The kernel's parent-death signal reaches
// the command, but not its children, and not while we are merely stopped.)
type shepherd struct {
	pipe interface {
		io.WriteCloser
		SetWriteDeadline(time.Time) error
	}
	process *os.Process  // nil in a test
	gone    func() error // waits for its end
	told    machine.Mono // see until
	group   int          // see watch
	late    bool         // the time told had come before another was: it may have killed
}

func startShepherd() (*shepherd, error) {
	s := &shepherd{}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *shepherd) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return s.startAs(self)
}

// startAs is start by the program at a path.
func (s *shepherd) startAs(self string) error {
	orders, pipe, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe to a second process, which watches over the command: %w", err)
	}
	defer orders.Close()
	cmd := exec.Command(self, "shepherd", strconv.Itoa(os.Getpid()))
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stderr = orders, os.Stderr
	// In a group of its own it gets none of the signals that end or stop ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		pipe.Close()
		return fmt.Errorf("start a second process of %s, which watches over the command: %w", self, err)
	}
	s.pipe, s.process, s.gone = pipe, cmd.Process, cmd.Wait
	return nil
}

// replace starts another shepherd for one that was killed, by an operator or for want of memory. The
// command has none until the next order, which comes with the next renewal at the latest.
func (s *shepherd) replace() error {
	s.pipe.Close()
	go s.gone()
	if err := s.start(); err != nil {
		return err // the next order tries again
	}
	go fmt.Fprintln(os.Stderr, "tenure: the process that watches over the command was killed; another one does so now") // the output may not be read
	return nil
}

// known are the orders by which a shepherd learns the knowledge of the one before it.
func (s *shepherd) known() (lines string) {
	if s.told != 0 {
		lines += line(orderUntil, int64(s.told))
	}
	if s.group != 0 {
		lines += line(orderGroup, int64(s.group))
	}
	return lines
}

// The orders that a shepherd takes, each on a line of its own with a number behind it.
const (
	orderUntil  = "until"  // kill when this reading of the clock has come
	orderGroup  = "group"  // this process group; before, the guard with whatever it has started
	orderDesert = "desert" // kill nothing any more
)

// until tells the shepherd when to kill, on the clock that all processes of this machine
// share. A time that it knows is not told again.
func (s *shepherd) until(at machine.Mono) {
	if change := at.Sub(s.told).Abs(); change > time.Millisecond && s.order(orderUntil, int64(at)) {
		s.told = at
	}
}

// watch tells it which group to kill.
func (s *shepherd) watch(group int) {
	s.group = group
	s.order(orderGroup, int64(group))
}

// dismiss ends it without harm. One that has been stopped does not hear of it, and must not
// keep us from giving the lease back.
func (s *shepherd) dismiss() {
	s.order(orderDesert, 0)
	s.pipe.Close()
	if s.process != nil {
		defer time.AfterFunc(time.Second, func() { _ = s.process.Kill() }).Stop()
	}
	_ = s.gone()
}

// order writes a line, and reports whether it did. A shepherd that has ended is replaced. Its
// successor gets all orders at once: one that knew a deadline that has passed, and no group, would
// kill the guard.
func (s *shepherd) order(verb string, number int64) bool {
	lines := line(verb, number)
	err := s.write(lines)
	if s.process != nil && verb != orderDesert && (errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed)) {
		if err = s.replace(); err == nil {
			err = s.write(s.known() + lines)
		}
		if err != nil {
			s.pipe.Close() // one that knows nothing ends, and the next order replaces it
		}
	}
	return err == nil
}

func line(verb string, number int64) string { return fmt.Sprintf("%s %d\n", verb, number) }

// write writes lines. The shepherd may have been stopped for so long that the pipe is full: then
// the guard must go on without it. It may also be the guard that was stopped, until the time for a try
// had run out: so there is another try. Lines that are written together are written as a whole or not at all.
func (s *shepherd) write(lines string) (err error) {
	for range 3 {
		_ = s.pipe.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err = io.WriteString(s.pipe, lines); err == nil {
			return nil
		}
	}
	return err
}

// orderPause is how long it takes until an order that can be read is taken, more or less.
const orderPause = time.Millisecond

func shepherdCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "shepherd GUARD",
		Short:  "Kill a process group when standard input ends or a deadline comes (used by lock and elect)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP)
			// The parent of this moment does not count: the guard may have ended, and the first
			// process of the machine may have adopted us.
			guard, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("the guard's process number: %w", err)
			}
			in := &orderPipe{fd: int(os.Stdin.Fd())}
			herd(in, in.waiting, clock.System, kernel{}, func() {
				if os.Getppid() == guard { // else it has ended, and its number may be another's
					killStarting(guard)
				}
			})
			return nil
		},
	}
}

// herd is the shepherd: it obeys orders until they end, and stays until none is left of a group that it has killed then. We
// have inherited the guard's lifeline, and our end is the end of the holder. A command may have closed
// all files that it did not open.
func herd(orders io.Reader, waiting func() bool, c clock.Clock, p processes, killStarting func()) {
	killed := obey(orders, waiting, c, func(group int) {
		if group == 0 {
			killStarting()
		} else {
			p.kill(group, syscall.SIGKILL)
		}
	})
	if killed > 0 {
		awaitEnd(p, killed)
	}
}

// awaitEnd returns when none of a group is left.
func awaitEnd(p processes, group int) {
	for pause := time.Millisecond; p.alive(group); pause = min(2*pause, 100*time.Millisecond) {
		time.Sleep(pause)
	}
}

// killStarting kills a guard that has told of no group yet, and the groups that it has begun.
func killStarting(guard int) {
	for p := range processTable() {
		if p.parent == guard && p.group == p.id && p.id != os.Getpid() {
			kernel{}.kill(p.group, syscall.SIGKILL)
		}
	}
	_ = syscall.Kill(guard, syscall.SIGKILL)
}

// orderPipe is a shepherd's end of the pipe. It knows whether there is more to obey.
type orderPipe struct {
	fd int

	mu    sync.Mutex
	taken bool // something was read that is not obeyed yet
}

// Read implements io.Reader. The call for more shows that the orders read before were obeyed.
func (p *orderPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	p.taken = false
	p.mu.Unlock()
	for {
		if !p.readable(-1) {
			continue
		}
		p.mu.Lock()
		n, err := unix.Read(p.fd, b)
		p.taken = true
		p.mu.Unlock()
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// waiting reports whether there are orders, or their end, that are not obeyed yet.
func (p *orderPipe) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken || p.readable(0)
}

// readable waits for something to read, for so many milliseconds or, below 0, for ever. An
// error is for Read to tell.
func (p *orderPipe) readable(most int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, most)
	return n > 0 || err != nil && err != unix.EINTR
}

// obey takes orders until they end, and kills when it is time to: the group, or with 0 the
// guard, which has told of no group yet. It obeys the orders that wait before it kills, for
// they may move the time: this process may have been stopped, and its guard not. It returns the group
// that it killed because the guard has ended, or 0.
func obey(orders io.Reader, waiting func() bool, c clock.Clock, kill func(group int)) (killed int) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(orders); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	group, deserted := 0, false
	var due *clock.Alarm
	var rings <-chan struct{}
	for {
		select {
		case line, more := <-lines:
			var verb string
			var number int64
			if _, err := fmt.Sscan(line, &verb, &number); more && err != nil {
				continue
			}
			switch {
			case !more:
				if due != nil {
					due.Stop()
				}
				if group > 1 && !deserted {
					kill(group)
					return group
				}
				return 0
			case verb == orderUntil:
				if due != nil {
					due.Stop()
				}
				due = c.Alarm(machine.Mono(number))
				rings = due.C
			case verb == orderGroup && number > 1:
				group = int(number)
			case verb == orderDesert:
				deserted = true
			}
		case <-rings:
			rings = nil
			switch {
			case deserted:
			case waiting():
				due = c.Alarm(clock.After(c, orderPause))
				rings = due.C
			default:
				kill(group)
			}
		}
	}
}
