package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/member/backup"
)

// savedSnapshot is what `snapshot save` prints.
type savedSnapshot struct {
	File     string  `json:"file"`
	Bytes    int64   `json:"bytes"`
	Revision int64   `json:"revision"`
	Cluster  string  `json:"cluster"`
	Member   string  `json:"member"`
	Version  string  `json:"version"` // of etcd's data format
	TookMS   float64 `json:"took_ms"`
}

func snapshotSaveCommand() *cobra.Command {
	var at place
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save the state of one member to a file",
		Long: `Saves the state of one member to FILE, with a checksum. The member goes on serving, and needs
no other one for it, so a snapshot can be had when a majority is lost. A member that has fallen
behind has an older state: name one with --at, if that matters.

FILE appears once it is whole and on the disk. A file that is there is not written over.

` + fmt.Sprintf(`The exit code is
  0    the file is there
  %d   wrong usage; nothing was saved
  %d   no member answers, or it failed meanwhile; nothing was saved
  %d   there is a file already; nothing was saved`, cli.ExitUsage, cli.ExitUnavailable, cli.ExitCannotMake),
		Example: `  tenure snapshot save tenure.db
  tenure snapshot save /backup/$(date +%F).db --at etcd://10.0.0.2:2379

  # Each night, on whichever host comes first.
  tenure lock backup --every 20h --at etcd://10.0.0.1:2379,10.0.0.2:2379 -- tenure snapshot save /backup/$(date +%F).db`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := at.ready(); err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			saved, err := saveSnapshot(ctx, at, args[0], cmd.ErrOrStderr())
			if err != nil {
				return cli.Interrupted(stoppedBy(ctx, err))
			}
			return o.Print(cmd.OutOrStdout(), saved, func() {
				fmt.Fprintf(cmd.OutOrStdout(), "saved revision %d of member %s to %s, %d bytes\n", saved.Revision, saved.Member, saved.File, saved.Bytes)
			})
		},
	}
	serverFlag(cmd.Flags(), &at)
	o.Register(cmd)
	return cmd
}

// saveSnapshot has a file appear at path, whole and durable, or not at all.
func saveSnapshot(ctx context.Context, at place, path string, progress io.Writer) (s savedSnapshot, err error) {
	if _, err := os.Lstat(path); err == nil {
		return s, cli.Exit(cli.ExitCannotMake, fmt.Errorf("%s is there already: name another file, or move it away", path))
	}
	client, err := serverAt(ctx, at)
	if err != nil {
		return s, err
	}
	defer client.Close()
	began := time.Now()
	if _, err := listMembers(ctx, client); err != nil {
		return s, snapshotTrouble(at, err)
	}
	from, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return s, snapshotTrouble(at, err)
	}
	defer from.Snapshot.Close()
	var n int64
	err = appear(wal.OS{}, path, func(w io.Writer, part string) (err error) {
		if n, err = io.Copy(io.MultiWriter(w, newMeter(progress)), from.Snapshot); err != nil {
			return snapshotTrouble(at, err)
		}
		if err = backup.CheckSum(part); err != nil {
			return cli.Exit(cli.ExitUnavailable, fmt.Errorf("what came from %s is not whole: %w", at, err))
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	h := from.Header
	return savedSnapshot{
		File: path, Bytes: n, Revision: h.GetRevision(), Cluster: hexID(h.GetClusterId()), Member: hexID(h.GetMemberId()),
		Version: from.Version, TookMS: millis(time.Since(began)),
	}, nil
}

// appear has a file be at path, whole and durable, or not at all; it replaces none. The file is called part until
// write has written it.
func appear(disk wal.FS, path string, write func(w io.Writer, part string) error) error {
	part := fmt.Sprintf("%s.part-%d", path, os.Getpid())
	file, err := disk.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return cli.Exit(cli.ExitCannotMake, err)
	}
	defer disk.Remove(part) // which is gone if path is there by its renaming
	if err := write(io.NewOffsetWriter(file, 0), part); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	if err := os.Link(part, path); errors.Is(err, fs.ErrExist) {
		return cli.Exit(cli.ExitCannotMake, fmt.Errorf("%s has appeared meanwhile: name another file", path))
	} else if err != nil {
		if err := disk.Rename(part, path); err != nil { // a filesystem without links
			return fmt.Errorf("save %s: %w", path, err)
		}
	}
	if err := disk.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

// snapshotTrouble is an error of the server's as a colleague would put it.
func snapshotTrouble(at place, err error) error {
	if refused := at.refused(err); refused != nil {
		return refused
	}
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		err = errors.New(known.Error())
	}
	return cli.Exit(cli.ExitUnavailable, fmt.Errorf("no snapshot from %s: %w; nothing was saved", at, err))
}

// meter tells on a terminal how much has come.
type meter struct {
	w     io.Writer // nil: there is no terminal
	n     int64
	shown time.Time
}

func newMeter(w io.Writer) *meter {
	if f, ok := w.(*os.File); ok && cli.IsTerminal(f) {
		return &meter{w: w}
	}
	return &meter{}
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if now := time.Now(); m.w != nil && now.Sub(m.shown) > 100*time.Millisecond {
		m.shown = now
		fmt.Fprintf(m.w, "\r\x1b[K%.1f MiB", float64(m.n)/(1<<20))
	}
	return len(p), nil
}
