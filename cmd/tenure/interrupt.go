package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interrupt is a signal that ended a context.
type interrupt syscall.Signal

func (i interrupt) Error() string { return "signal: " + syscall.Signal(i).String() }

// untilSignal is a context that an interrupt or SIGTERM ends, with an interrupt as the cause.
// The next one ends the process.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel(interrupt(s.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// interrupted gives an error a shell's exit code if it was a signal that led to it.
func interrupted(err error) error {
	var i interrupt
	if errors.As(err, &i) {
		return exitError{exitSignal + int(i), err}
	}
	return err
}
