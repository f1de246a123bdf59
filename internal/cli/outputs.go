package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"gopkg.in/natefinch/lumberjack.v2"
)

// Outputs are where a log goes, by etcd's flags.
type Outputs struct {
	To       []string
	Rotate   bool
	Rotation string
}

// The words for outputs that are no files.
const (
	outputDefault = "default"
	outputStderr  = "stderr"
	outputStdout  = "stdout"
	outputJournal = "systemd/journal"
)

// Register adds etcd's flags for the places of a log.
func (o *Outputs) Register(f *pflag.FlagSet) {
	f.StringSliceVar(&o.To, "log-outputs", []string{outputDefault}, "where the log goes: stderr (or default), stdout, systemd/journal alone, or `files`")
	f.BoolVar(&o.Rotate, "enable-log-rotation", false, "begin a new log file when the one of --log-outputs is large")
	f.StringVar(&o.Rotation, "log-rotation-config-json", `{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}`,
		"`JSON` for --enable-log-rotation: maxsize in MB, maxage in days and maxbackups of old files (0 keeps all), localtime in their names, compress by gzip")
}

// Logger makes a log that goes to all outputs. close closes its files.
func (o Outputs) Logger(l Log) (_ *slog.Logger, close func(), err error) {
	var writers []io.Writer
	var files []io.Closer
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	to := slices.Compact(slices.Sorted(slices.Values(o.To)))
	if len(to) == 0 {
		to = []string{outputDefault}
	}
	for _, alone := range []string{outputDefault, outputJournal} {
		if len(to) > 1 && slices.Contains(to, alone) {
			return nil, nil, Usagef("--log-outputs %s goes with no other: name stderr, stdout and files", alone)
		}
	}
	if o.Rotate {
		if err := o.rotates(to); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range to {
		switch name {
		case outputDefault, outputStderr:
			writers = append(writers, os.Stderr)
		case outputStdout:
			writers = append(writers, os.Stdout)
		case outputJournal:
			logger, err := l.journal()
			return logger, closeAll, err
		default:
			w, err := o.file(name)
			if err != nil {
				return nil, nil, Usagef("--log-outputs %s: %w", name, err)
			}
			writers, files = append(writers, w), append(files, w)
		}
	}
	w := writers[0] // which may be a terminal
	if len(writers) > 1 {
		w = eachOutput(writers)
	}
	logger, err := l.Logger(w)
	return logger, closeAll, err
}

// eachOutput writes to all outputs, whichever fail: a disk that is full must not silence standard error.
type eachOutput []io.Writer

// Write implements io.Writer.
func (o eachOutput) Write(b []byte) (n int, err error) {
	for _, w := range o {
		if _, failed := w.Write(b); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// rotates wants one file among the outputs, as etcd does.
func (o Outputs) rotates(to []string) error {
	files := 0
	for _, name := range to {
		if !slices.Contains([]string{outputDefault, outputStderr, outputStdout, outputJournal}, name) {
			files++
		}
	}
	if files != 1 {
		return Usagef("--enable-log-rotation needs one file in --log-outputs, and there are %d", files)
	}
	return nil
}

// file opens a file of the log, at its end.
func (o Outputs) file(name string) (io.WriteCloser, error) {
	if name == "" {
		return nil, errors.New("the name of a file is empty")
	}
	// A file that cannot be written is told now: rotation would open it with the first line.
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil || !o.Rotate {
		return f, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	w := &lumberjack.Logger{}
	if err := json.Unmarshal([]byte(o.Rotation), w); err != nil {
		return nil, fmt.Errorf("--log-rotation-config-json: %w", err)
	}
	if w.MaxSize < 0 || w.MaxAge < 0 || w.MaxBackups < 0 {
		return nil, fmt.Errorf("--log-rotation-config-json %s: a number is negative", o.Rotation)
	}
	w.Filename = name
	return w, nil
}
