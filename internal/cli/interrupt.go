package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Interrupt is a signal that ended a context.
type Interrupt syscall.Signal

func (i Interrupt) Error() string { return "signal: " + syscall.Signal(i).String() }

// UntilSignal returns a context that an interrupt or SIGTERM ends, with an Interrupt as the cause.
// The next one ends the process.
func UntilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals) // before anything ends, so that the next one is never swallowed
			cancel(Interrupt(s.(syscall.Signal)))
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Interrupted gives an error a shell's exit code if it was a signal that led to it.
func Interrupted(err error) error {
	var i Interrupt
	if errors.As(err, &i) {
		return Exit(ExitSignal+int(i), err)
	}
	return err
}
