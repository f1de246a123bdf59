package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"iter"
)

// lines reads lines until the end of the input, or of the context, which reading does not
// wait for. Of one that is longer than a limit comes as much as is enough to see that. A
// line is valid until the next.
func lines(ctx context.Context, in io.Reader, limit int) iter.Seq2[[]byte, error] {
	type line struct {
		text []byte
		err  error
	}
	return func(yield func([]byte, error) bool) {
		next, read := make(chan line), make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // and it may wait for a terminal when all else has ended
			r := bufio.NewReaderSize(in, limit+2)
			for range read {
				text, err := r.ReadSlice('\n')
				if err == bufio.ErrBufferFull || err == io.EOF && len(text) > 0 {
					err = nil
				}
				select {
				case next <- line{bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")), err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		defer close(read)
		for {
			read <- struct{}{}
			select {
			case l := <-next:
				if l.err == io.EOF || !yield(l.text, l.err) || l.err != nil {
					return
				}
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}
