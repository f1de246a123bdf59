package main

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd how the server is, if systemd has started it and wants to know (Type=notify).
func notify(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("systemd was not told", "state", state, "err", err)
	}
}
