// Package redis has internal/host/register/redis meet real Redis servers, as Debian's package
// redis-server has them: killed, stopped, restarted with and without what they had
// acknowledged, demoted and promoted, full. And it holds a register on three of them
// beside Redlock on the same three, in one run:
//
//	go test ./redis -run '^$' -bench .
//
// Without a redis-server on PATH the tests are skipped.
package redis
