package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// An interrupt and SIGTERM end what waits, and are known as the cause of it.
func TestSignalsEndAContext(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		survived := make(chan os.Signal, 1) // this process
		signal.Notify(survived, sig)
		ctx, stop := untilSignal(t.Context())
		if ctx.Err() != nil {
			t.Fatalf("before %v: %v", sig, ctx.Err())
		}
		_ = syscall.Kill(os.Getpid(), sig)
		<-survived
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		if cause := context.Cause(ctx); cause != error(interrupt(sig)) {
			t.Errorf("after %v the cause is %v", sig, cause)
		} else {
			wantExit(t, interrupted(cause), exitSignal+int(sig))
		}
		stop()
		signal.Stop(survived)
	}
	ctx, stop := untilSignal(t.Context())
	if stop(); ctx.Err() == nil {
		t.Error("what was stopped waits on")
	}
}
