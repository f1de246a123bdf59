package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/server"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// Traces go where the flags say, if they are to go anywhere.
func TestTracingOptions(t *testing.T) {
	with := func(args ...string) (tracing.Config, error) {
		var o tracingOptions
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.register(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		var cfg server.Config
		err := o.setIn(&cfg)
		return cfg.Tracing, err
	}
	const on, rate, address = "--enable-distributed-tracing", "--distributed-tracing-sampling-rate=", "--distributed-tracing-address="
	if got, err := with(rate+"-5", address+"a:1"); err != nil || got != (tracing.Config{}) {
		t.Errorf("without %s: %+v, %v, want none", on, got, err)
	}
	want := tracing.Config{Address: "a:1", Service: "s", Instance: "i", PerMillion: 1_000_000}
	if got, err := with(on, rate+"1000000", address+"a:1", "--distributed-tracing-service-name=s", "--distributed-tracing-instance-id=i"); err != nil || got != want {
		t.Errorf("all flags make %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{rate + "-1", rate + "1000001", address} {
		if _, err := with(on, bad); err == nil {
			t.Errorf("%s is taken, want an error", bad)
		}
	}
}
