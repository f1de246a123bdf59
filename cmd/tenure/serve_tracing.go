package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/server"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// tracingOptions are the flags of traces, with etcd's names, meanings and defaults.
type tracingOptions struct {
	on                         bool
	address, service, instance string
	perMillion                 int
}

func (o *tracingOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "enable-distributed-tracing", false, "send traces of calls to a collector of OpenTelemetry")
	f.StringVar(&o.address, "distributed-tracing-address", "localhost:4317", "`address` of the collector, which takes OTLP over gRPC, without TLS")
	f.StringVar(&o.service, "distributed-tracing-service-name", "etcd", "`name` of the service in traces, the same on each member")
	f.StringVar(&o.instance, "distributed-tracing-instance-id", "", "`name` of this member in traces (default none)")
	f.IntVar(&o.perMillion, "distributed-tracing-sampling-rate", 0, "`number` of calls of a million that are traced; those that their clients trace are traced in any case")
}

// setIn gives the options to a member.
func (o *tracingOptions) setIn(cfg *server.Config) error {
	if !o.on {
		return nil
	}
	if o.perMillion < 0 || o.perMillion > tracing.MaxPerMillion {
		return fmt.Errorf("--distributed-tracing-sampling-rate %d: want 0 to %d", o.perMillion, tracing.MaxPerMillion)
	}
	if o.address == "" {
		return fmt.Errorf("--enable-distributed-tracing needs the address of a collector: --distributed-tracing-address")
	}
	cfg.Tracing = tracing.Config{Address: o.address, Service: o.service, Instance: o.instance, PerMillion: o.perMillion}
	return nil
}
