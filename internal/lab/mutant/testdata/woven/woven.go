// Package woven has functions of all shapes that a second body is called from.
package woven

import "errors"

const limit = 7

type Sum struct{ total int }

func (s *Sum) Add(n int) { s.total += n }

func (Sum) Unit(int, string) int { return 1 }

func (_ Sum) Second(_ int, b int) int { return b }

func (s Sum) Copied() int { s.total++; return s.total }

func Largest[T int | string](first T, more ...T) T {
	for _, x := range more {
		first = max(first, x)
	}
	return first
}

func Half(n int) (half int, err error) {
	defer func() { half *= 2 }()
	if n%2 != 0 {
		return 0, errors.New("odd")
	}
	half, err = n/4, nil
	return
}

func Count(list [][]int) (n int) {
rows:
	for _, row := range list {
		for _, x := range row {
			if x == 0 {
				continue rows
			}
			n++
		}
	}
	return n
}

func Limited(n int) int { return min(n, limit) }

var began int

func init() { began = 3 }

func Safe(f func()) (err error) {
	defer rescue(&err)
	f()
	return nil
}

func rescue(err *error) {
	if recover() != nil {
		*err = errors.New("it panicked")
	}
}
