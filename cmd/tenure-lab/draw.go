package main

import (
	"io"
	"os"
)

// draw writes a picture to a file.
func draw(path string, svg func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := svg(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
