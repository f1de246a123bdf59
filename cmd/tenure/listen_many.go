package main

import (
	"errors"
	"net"
	"sync"
)

// accepted is what one Accept returned.
type accepted struct {
	conn net.Conn
	err  error
}

// manyListener takes the connections of several listeners in. Its address is that of the first.
type manyListener struct {
	net.Listener
	all  []net.Listener
	next chan accepted
	end  chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// listenMany makes one listener of several, which it closes when it is closed. One alone stays as it is.
func listenMany(all []net.Listener) net.Listener {
	if len(all) == 1 {
		return all[0]
	}
	m := &manyListener{Listener: all[0], all: all, next: make(chan accepted), end: make(chan struct{})}
	for _, l := range all {
		m.done.Go(func() { m.take(l) })
	}
	return m
}

// take takes the connections of one listener in, and its errors, until that is closed.
func (m *manyListener) take(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case m.next <- accepted{conn, err}:
		case <-m.end:
			if conn != nil {
				conn.Close()
			}
			return
		}
	}
}

// Accept returns the next connection at any of the listeners.
func (m *manyListener) Accept() (net.Conn, error) {
	select {
	case a := <-m.next:
		return a.conn, a.err
	case <-m.end:
		return nil, net.ErrClosed
	}
}

// Close closes all listeners.
func (m *manyListener) Close() (err error) {
	m.once.Do(func() {
		close(m.end)
		for _, l := range m.all {
			err = errors.Join(err, l.Close())
		}
		m.done.Wait()
	})
	return err
}
